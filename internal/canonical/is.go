package canonical

import (
	"bytes"
	"encoding/binary"
)

// Is reports whether src is one JSON value that JSON would
// return as it is. It looks at every byte once and writes nothing. It does not
// know every canonical form: one with \u escapes, and keys with any escape, it
// leaves to JSON, and so it does with what is no JSON.
func Is(src []byte) bool {
	c := checker{Reader{src: src}}
	return c.value(1) && c.pos == len(src)
}

// checker moves over canonical JSON, and stops where it is none.
type checker struct{ Reader }

func (c *checker) value(depth int) bool {
	if c.pos == len(c.src) {
		return false
	}
	switch b := c.src[c.pos]; {
	case (b == '{' || b == '[') && depth > MaxDepth:
		return false
	case b == '{':
		var last []byte
		return c.list('}', func() bool { return c.key(&last) && c.value(depth+1) })
	case b == '[':
		return c.list(']', func() bool { return c.value(depth + 1) })
	case b == '"':
		return c.text()
	case c.word("true"), c.word("false"), c.word("null"):
		return true
	}
	_, _, err := c.Integer()
	return err == nil
}

// take moves over the byte b.
func (c *checker) take(b byte) bool {
	if c.pos == len(c.src) || c.src[c.pos] != b {
		return false
	}
	c.pos++
	return true
}

// list moves over what stands between the byte here and end, with commas between.
func (c *checker) list(end byte, item func() bool) bool {
	c.pos++
	if c.take(end) {
		return true
	}
	for item() {
		if !c.take(',') {
			return c.take(end)
		}
	}
	return false
}

// key moves over a key that comes after the last one, where there is one, and its colon.
func (c *checker) key(last *[]byte) bool {
	if !c.take('"') {
		return false
	}
	start := c.pos
	c.plain()
	key := c.src[start:c.pos]
	if !c.take('"') || *last != nil && bytes.Compare(*last, key) >= 0 {
		return false
	}
	*last = key
	return c.take(':')
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain moves over bytes that stand for themselves, eight at a time.
func (c *checker) plain() {
	at := c.pos
	for ; at+8 <= len(c.src); at += 8 {
		x := binary.LittleEndian.Uint64(c.src[at:])
		quote, slash, del := x^(ones*'"'), x^(ones*'\\'), x^(ones*0x7f)
		if (x|(x-ones*' ')|(quote-ones)|(slash-ones)|(del-ones))&highs != 0 {
			break // one of them is none, or may be
		}
	}
	for at < len(c.src) && IsPlain(c.src[at]) {
		at++
	}
	c.pos = at
}

func (c *checker) text() bool {
	c.pos++
	for c.pos < len(c.src) {
		c.plain()
		if c.pos == len(c.src) {
			return false
		}
		switch b := c.src[c.pos]; {
		case b == '"':
			c.pos++
			return true
		case b == '\\' && c.pos+1 < len(c.src) && bytes.IndexByte([]byte(`"\btnfr`), c.src[c.pos+1]) >= 0:
			c.pos += 2
		default:
			return false
		}
	}
	return false
}
