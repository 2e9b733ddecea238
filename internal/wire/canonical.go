package wire

import (
	"bytes"
	"slices"
)

// MaxCanonical is the largest document that Canonical takes, in bytes:
// arguments from the wire, and what defaults and a host add to them.
const MaxCanonical = 4 << 20

// Canonical returns the one form of a JSON document that digests are taken of. Keys are sorted by
// their UTF-8 bytes, there is no white space, and strings are in their shortest escaped form.
// Numbers are exactly as written (1 and 1.0 differ, and no digit is lost). It refuses what Check
// refuses, up to MaxCanonical bytes. Canonical bytes are their own canonical form.
func Canonical(data []byte) ([]byte, error) {
	if err := Check(data, Limits{Message: MaxCanonical, String: MaxCanonical}); err != nil {
		return nil, err
	}
	c := canon{scanner: scanner{data: data, limits: Limits{String: len(data)}}, out: make([]byte, 0, len(data))}
	c.value()
	return c.out, nil
}

// canon rewrites a document that was checked, so it meets no error.
type canon struct {
	scanner
	out     []byte
	scratch []byte
}

// span is where a member stands in out.
type span struct {
	key        []byte
	start, end int
}

func (c *canon) value() {
	c.space()
	switch c.peek() {
	case '{':
		c.pos++
		c.object()
	case '[':
		c.pos++
		c.array()
	case '"':
		c.string()
	default:
		start := c.pos
		_ = c.scalar() // checked before
		c.out = append(c.out, c.data[start:c.pos]...)
	}
}

func (c *canon) scalar() error {
	if b := c.peek(); b == '-' || isDigit(b) {
		return c.number()
	}
	return c.literal()
}

// string writes the next string, and returns what it says.
func (c *canon) string() []byte {
	raw, escaped, _ := c.text() // checked before
	if !escaped {               // so it is in its shortest form
		c.out = append(append(append(c.out, '"'), raw...), '"')
		return raw
	}
	raw = unescape(raw)
	c.out = AppendText(c.out, string(raw))
	return raw
}

func (c *canon) array() {
	c.out = append(c.out, '[')
	for c.more(']') {
		c.value()
		c.out = append(c.out, ',')
	}
	c.close(']')
}

func (c *canon) object() {
	c.out = append(c.out, '{')
	var few [fewKeys]span
	members := few[:0]
	for c.more('}') {
		m := span{start: len(c.out)}
		m.key = c.string()
		c.space()
		c.pos++ // the colon
		c.out = append(c.out, ':')
		c.value()
		c.out = append(c.out, ',')
		m.end = len(c.out)
		members = append(members, m)
	}
	c.sort(members)
	c.close('}')
}

// more reads up to the next element, or over the end of the container.
func (c *canon) more(end byte) bool {
	c.space()
	if c.peek() == ',' {
		c.pos++
		c.space()
	}
	if c.peek() == end {
		c.pos++
		return false
	}
	return true
}

// close replaces the comma after the last element by the container's end.
func (c *canon) close(end byte) {
	if last := len(c.out) - 1; c.out[last] == ',' {
		c.out = c.out[:last]
	}
	c.out = append(c.out, end)
}

// sort puts the members, which stand in out one after the other, in the order of their keys.
func (c *canon) sort(members []span) {
	byKey := func(a, b span) int { return bytes.Compare(a.key, b.key) }
	if slices.IsSortedFunc(members, byKey) {
		return
	}
	start := members[0].start
	slices.SortFunc(members, byKey)
	c.scratch = append(c.scratch[:0], c.out[start:]...)
	at := c.out[:start]
	for _, m := range members {
		at = append(at, c.scratch[m.start-start:m.end-start]...)
	}
	c.out = at
}
