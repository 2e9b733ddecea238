package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxInteger is the largest integer that every JSON reader keeps exactly.
const maxInteger = 1<<53 - 1

// canonical returns the one form in which JSON is hashed and signed here: what
// Python's json.dumps(sort_keys=True, separators=(",", ":")) writes. It
// refuses floats, integers beyond 2^53-1, duplicate keys, lone surrogates,
// invalid UTF-8 and more than MaxDepth levels.
func canonical(src []byte) ([]byte, error) {
	p := parser{src: src}
	dst, err := p.value(make([]byte, 0, len(src)+16), 1)
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos != len(src) {
		return nil, p.fail("something follows the value")
	}
	return dst, nil
}

type parser struct {
	src []byte
	pos int
}

func (p *parser) fail(why string) error { return fmt.Errorf("JSON byte %d: %s", p.pos, why) }

func (p *parser) space() {
	for p.pos < len(p.src) && bytes.IndexByte([]byte(" \t\r\n"), p.src[p.pos]) >= 0 {
		p.pos++
	}
}

// peek skips white space and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

func (p *parser) value(dst []byte, depth int) ([]byte, error) {
	switch c := p.peek(); {
	case depth > MaxDepth && (c == '{' || c == '['):
		return nil, p.fail("nested too deep")
	case c == '{':
		return p.object(dst, depth)
	case c == '[':
		return p.array(dst, depth)
	case c == '"':
		s, err := p.text()
		return appendText(dst, s), err
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.src[p.pos:], []byte(word)) {
			p.pos += len(word)
			return append(dst, word...), nil
		}
	}
	return p.integer(dst)
}

func (p *parser) integer(dst []byte) ([]byte, error) {
	end := p.pos
	for end < len(p.src) && (p.src[end] == '-' || '0' <= p.src[end] && p.src[end] <= '9') {
		end++
	}
	text := string(p.src[p.pos:end])
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n > maxInteger || n < -maxInteger {
		return nil, p.fail("expected a value: a string, an object, an array, true, false, null or an integer of at most 53 bits")
	}
	if end < len(p.src) && bytes.IndexByte([]byte(".eE"), p.src[end]) >= 0 {
		return nil, p.fail("floats are not allowed: write a string or an integer")
	}
	p.pos = end
	return append(dst, text...), nil
}

func (p *parser) array(dst []byte, depth int) ([]byte, error) {
	p.pos++
	dst = append(dst, '[')
	if p.peek() == ']' {
		p.pos++
		return append(dst, ']'), nil
	}
	for {
		var err error
		if dst, err = p.value(dst, depth+1); err != nil {
			return nil, err
		}
		end, err := p.next(']')
		if err != nil {
			return nil, err
		}
		if end {
			return append(dst, ']'), nil
		}
		dst = append(dst, ',')
	}
}

// next reads the comma or the end after an element.
func (p *parser) next(end byte) (bool, error) {
	switch p.peek() {
	case ',':
		p.pos++
		return false, nil
	case end:
		p.pos++
		return true, nil
	}
	return false, p.fail("expected a comma or the end")
}

// member is one key of an object with its canonical bytes, key included.
type member struct {
	key   string
	bytes []byte
}

func (p *parser) object(dst []byte, depth int) ([]byte, error) {
	p.pos++
	if p.peek() == '}' {
		p.pos++
		return append(dst, "{}"...), nil
	}
	var members []member
	for end := false; !end; {
		m, err := p.member(depth)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
		if end, err = p.next('}'); err != nil {
			return nil, err
		}
	}
	return p.sorted(dst, members)
}

func (p *parser) member(depth int) (member, error) {
	if p.peek() != '"' {
		return member{}, p.fail("expected a key")
	}
	key, err := p.text()
	if err != nil {
		return member{}, err
	}
	if p.peek() != ':' {
		return member{}, p.fail("expected a colon")
	}
	p.pos++
	value, err := p.value(append(appendText(nil, key), ':'), depth+1)
	return member{key, value}, err
}

func (p *parser) sorted(dst []byte, members []member) ([]byte, error) {
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	for i, m := range members {
		switch {
		case i == 0:
			dst = append(dst, '{')
		case members[i-1].key == m.key:
			return nil, p.fail(fmt.Sprintf("duplicate key %.40q", m.key))
		default:
			dst = append(dst, ',')
		}
		dst = append(dst, m.bytes...)
	}
	return append(dst, '}'), nil
}

// text reads a string, from quote to quote.
func (p *parser) text() (string, error) {
	p.pos++
	var out []byte
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(out), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", p.fail("raw control character in a string")
		default:
			r, size := utf8.DecodeRune(p.src[p.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", p.fail("invalid UTF-8")
			}
			out = append(out, p.src[p.pos:p.pos+size]...)
			p.pos += size
		}
	}
	return "", p.fail("string does not end")
}

func (p *parser) escape() (rune, error) {
	rest := p.src[p.pos:]
	if len(rest) >= 2 {
		if i := bytes.IndexByte([]byte(`"\/bfnrt`), rest[1]); i >= 0 {
			p.pos += 2
			return rune("\"\\/\b\f\n\r\t"[i]), nil
		}
	}
	r := hex4(rest)
	if utf16.IsSurrogate(r) {
		r = utf16.DecodeRune(r, hex4(rest[6:]))
		if r == utf8.RuneError {
			return 0, p.fail("half of a surrogate pair")
		}
		p.pos += 6
	}
	if r < 0 {
		return 0, p.fail("unknown escape")
	}
	p.pos += 6
	return r, nil
}

// hex4 decodes the \uXXXX that b starts with, or returns -1.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// appendText appends s as a string of ASCII alone, as Python's json.dumps
// writes it. Bytes that are not UTF-8 become U+FFFD.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch i := bytes.IndexRune([]byte("\"\\\b\f\n\r\t"), r); {
		case i >= 0:
			dst = append(dst, '\\', `"\bfnrt`[i])
		case ' ' <= r && r <= '~':
			dst = append(dst, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendHex4(appendHex4(dst, high), low)
		default:
			dst = appendHex4(dst, r)
		}
	}
	return append(dst, '"')
}

func appendHex4(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
