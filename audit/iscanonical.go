package audit

import "bytes"

// isCanonical reports whether src is one JSON value that canonical would
// return as it is. It looks at every byte once and writes nothing. It does not
// know every canonical form: one with \u escapes, and keys with any escape, it
// leaves to canonical, and so it does with what is no JSON.
func isCanonical(src []byte) bool {
	c := checker{parser{src: src}}
	return c.value(1) && c.pos == len(src)
}

// checker moves over canonical JSON, and stops where it is none.
type checker struct{ parser }

func (c *checker) value(depth int) bool {
	if c.pos == len(c.src) {
		return false
	}
	switch b := c.src[c.pos]; {
	case (b == '{' || b == '[') && depth > MaxDepth:
		return false
	case b == '{':
		return c.object(depth)
	case b == '[':
		return c.array(depth)
	case b == '"':
		return c.text()
	case b == 't':
		return c.word("true")
	case b == 'f':
		return c.word("false")
	case b == 'n':
		return c.word("null")
	}
	_, _, err := c.integer()
	return err == nil
}

func (c *checker) word(word string) bool {
	if rest := c.src[c.pos:]; len(rest) < len(word) || string(rest[:len(word)]) != word {
		return false
	}
	c.pos += len(word)
	return true
}

// take moves over the byte b.
func (c *checker) take(b byte) bool {
	if c.pos == len(c.src) || c.src[c.pos] != b {
		return false
	}
	c.pos++
	return true
}

func (c *checker) array(depth int) bool {
	c.pos++
	if c.take(']') {
		return true
	}
	for c.value(depth + 1) {
		if c.take(']') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
	return false
}

func (c *checker) object(depth int) bool {
	c.pos++
	if c.take('}') {
		return true
	}
	var last []byte
	for first := true; c.key(&last, first) && c.value(depth+1); first = false {
		if c.take('}') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
	return false
}

// key moves over a key that comes after the last one, and its colon.
func (c *checker) key(last *[]byte, first bool) bool {
	if !c.take('"') {
		return false
	}
	start := c.pos
	for c.pos < len(c.src) && isPlain(c.src[c.pos]) {
		c.pos++
	}
	key := c.src[start:c.pos]
	if !c.take('"') || !first && bytes.Compare(*last, key) >= 0 {
		return false
	}
	*last = key
	return c.take(':')
}

func (c *checker) text() bool {
	c.pos++
	for c.pos < len(c.src) {
		switch b := c.src[c.pos]; {
		case isPlain(b):
			c.pos++
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
