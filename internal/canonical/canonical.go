// Package canonical promises one form in which JSON is hashed and signed, and reads it (K-20).
package canonical

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxInteger is the largest integer that every JSON reader keeps exactly.
	MaxInteger = 1<<53 - 1
	// MaxDepth is how deep a value may nest, itself counted.
	MaxDepth = 16
)

// JSON returns the form of a value: what Python's
// json.dumps(sort_keys=True, separators=(",", ":")) writes. It refuses floats,
// integers beyond MaxInteger, duplicate keys, lone surrogates, invalid UTF-8
// and more than MaxDepth levels.
func JSON(src []byte) ([]byte, error) {
	return AppendJSON(make([]byte, 0, len(src)+16), src)
}

// AppendJSON appends what JSON returns. Where it fails, what it appended is of no use.
func AppendJSON(dst, src []byte) ([]byte, error) {
	var room [16]member
	p := Reader{src: src, members: room[:0]}
	dst, err := p.value(dst, 1)
	if err != nil {
		return dst, err
	}
	if p.space(); p.pos != len(src) {
		return dst, p.Fail("something follows the value")
	}
	return dst, nil
}

// Reader reads a value member by member. Its errors say at which byte they are.
type Reader struct {
	src     []byte
	pos     int
	members []member // of the objects that are being read, one after another
}

// NewReader reads from the beginning of src.
func NewReader(src []byte) *Reader { return &Reader{src: src} }

// Ended tells whether nothing follows.
func (p *Reader) Ended() bool { return p.pos >= len(p.src) }

// Skip steps over one byte, such as a comma that Peek saw.
func (p *Reader) Skip() { p.pos++ }

// Raw reads a value of any kind, and returns it as it stands there.
func (p *Reader) Raw() ([]byte, error) {
	start := p.pos
	_, err := p.value(nil, 1)
	return p.src[start:p.pos], err
}

// Fail is an error at the byte that would be read next.
func (p *Reader) Fail(why string) error { return fmt.Errorf("JSON byte %d: %s", p.pos, why) }

func (p *Reader) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return
		}
	}
}

// Peek skips white space and returns the next byte, or 0 at the end.
func (p *Reader) Peek() byte {
	p.space()
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

func (p *Reader) value(dst []byte, depth int) ([]byte, error) {
	switch c := p.Peek(); {
	case depth > MaxDepth && (c == '{' || c == '['):
		return nil, p.Fail("nested too deep")
	case c == '{':
		return p.object(dst, depth)
	case c == '[':
		return p.array(dst, depth)
	case c == '"':
		s, err := p.Text()
		return AppendText(dst, s), err
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if p.word(word) {
			return append(dst, word...), nil
		}
	}
	text, _, err := p.Integer()
	return append(dst, text...), err
}

// word moves over one, where it stands here.
func (p *Reader) word(word string) bool {
	if rest := p.src[p.pos:]; len(rest) < len(word) || string(rest[:len(word)]) != word {
		return false
	}
	p.pos += len(word)
	return true
}

// Integer reads one of at most 53 bits and a sign, in its only form.
func (p *Reader) Integer() (text []byte, n int64, err error) {
	end := p.pos
	if end < len(p.src) && p.src[end] == '-' {
		end++
	}
	digits := end
	for end < len(p.src) && '0' <= p.src[end] && p.src[end] <= '9' && end-digits < 17 {
		n = n*10 + int64(p.src[end]-'0')
		end++
	}
	text = p.src[p.pos:end]
	negative := digits > p.pos
	if end == digits || n > MaxInteger || p.src[digits] == '0' && (end-digits > 1 || negative) {
		return nil, 0, p.Fail("expected a value: a string, an object, an array, true, false, null or an integer of at most 53 bits")
	}
	if end < len(p.src) && (p.src[end] == '.' || p.src[end] == 'e' || p.src[end] == 'E') {
		return nil, 0, p.Fail("floats are not allowed: write a string or an integer")
	}
	if p.pos = end; negative {
		n = -n
	}
	return text, n, nil
}

func (p *Reader) array(dst []byte, depth int) ([]byte, error) {
	p.pos++
	dst = append(dst, '[')
	if p.Peek() == ']' {
		p.pos++
		return append(dst, ']'), nil
	}
	for end := false; !end; {
		var err error
		if dst, err = p.value(dst, depth+1); err == nil {
			end, err = p.next(']')
		}
		if err != nil {
			return nil, err
		}
		dst = append(dst, ',')
	}
	dst[len(dst)-1] = ']'
	return dst, nil
}

// next reads the comma or the end after an element.
func (p *Reader) next(end byte) (bool, error) {
	switch p.Peek() {
	case ',':
		p.pos++
		return false, nil
	case end:
		p.pos++
		return true, nil
	}
	return false, p.Fail("expected a comma or the end")
}

// member is one key of an object, and where its canonical bytes stand, key included.
type member struct {
	key      []byte
	from, to int
}

func (p *Reader) object(dst []byte, depth int) ([]byte, error) {
	p.pos++
	dst = append(dst, '{')
	if p.Peek() == '}' {
		p.pos++
		return append(dst, '}'), nil
	}
	start, base, ordered := len(dst), len(p.members), true
	for end := false; !end; {
		m, grown, err := p.member(dst, depth)
		if err != nil {
			return nil, err
		}
		if n := len(p.members); n > base && bytes.Compare(p.members[n-1].key, m.key) >= 0 {
			ordered = false
		}
		p.members = append(p.members, m)
		if end, err = p.next('}'); err != nil {
			return nil, err
		}
		dst = append(grown, ',')
	}
	var err error
	if !ordered {
		err = p.sort(dst[start:], start, p.members[base:])
	}
	p.members = p.members[:base]
	dst[len(dst)-1] = '}'
	return dst, err
}

func (p *Reader) member(dst []byte, depth int) (member, []byte, error) {
	if p.Peek() != '"' {
		return member{}, nil, p.Fail("expected a key")
	}
	key, err := p.Text()
	if err != nil {
		return member{}, nil, err
	}
	if p.Peek() != ':' {
		return member{}, nil, p.Fail("expected a colon")
	}
	p.pos++
	from := len(dst)
	dst, err = p.value(append(AppendText(dst, key), ':'), depth+1)
	return member{key, from, len(dst)}, dst, err
}

// sort puts the members, each with a comma behind it, in the order of their
// keys. Their places count from start.
func (p *Reader) sort(written []byte, start int, members []member) error {
	unsorted := bytes.Clone(written)
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	written = written[:0]
	for i, m := range members {
		if i > 0 && bytes.Equal(members[i-1].key, m.key) {
			return p.Fail(fmt.Sprintf("duplicate key %.40q", m.key))
		}
		written = append(append(written, unsorted[m.from-start:m.to-start]...), ',')
	}
	return nil
}

// Text reads a string, from quote to quote. What it returns may be part of src.
func (p *Reader) Text() ([]byte, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.src) && IsPlain(p.src[p.pos]) {
		p.pos++
	}
	if p.pos < len(p.src) && p.src[p.pos] == '"' {
		p.pos++
		return p.src[start : p.pos-1], nil
	}
	out := bytes.Clone(p.src[start:p.pos])
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case c == '"':
			p.pos++
			return out, nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return nil, p.Fail("raw control character in a string")
		default:
			r, size := utf8.DecodeRune(p.src[p.pos:])
			if r == utf8.RuneError && size == 1 {
				return nil, p.Fail("invalid UTF-8")
			}
			out = append(out, p.src[p.pos:p.pos+size]...)
			p.pos += size
		}
	}
	return nil, p.Fail("string does not end")
}

// IsPlain tells whether a byte stands for itself in a canonical text.
func IsPlain(c byte) bool { return ' ' <= c && c <= '~' && c != '"' && c != '\\' }

func (p *Reader) escape() (rune, error) {
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
			return 0, p.Fail("half of a surrogate pair")
		}
		p.pos += 6
	}
	if r < 0 {
		return 0, p.Fail("unknown escape")
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

// AppendText appends s as a string of ASCII alone, as Python's json.dumps
// writes it. Bytes that are not UTF-8 become U+FFFD.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	plain := 0
	for plain < len(s) && IsPlain(s[plain]) {
		plain++
	}
	dst = append(dst, s[:plain]...)
	for _, r := range string(s[plain:]) {
		switch {
		case ' ' <= r && r <= '~' && r != '"' && r != '\\':
			dst = utf8.AppendRune(dst, r)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case '\b' <= r && r <= '\r' && r != '\v':
			dst = append(dst, '\\', "btn.fr"[r-'\b'])
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

// Text is the text of that name at the top of a canonical object, or empty.
func Text(object []byte, name string) string {
	p := Reader{src: object}
	if p.Peek() != '{' {
		return ""
	}
	var scratch []byte
	for p.pos++; p.Peek() == '"'; p.pos++ { // the colon and the comma are there: it is canonical
		key, err := p.Text()
		if err != nil {
			return ""
		}
		if p.pos++; string(key) != name {
			if scratch, err = p.value(scratch[:0], 1); err != nil {
				return ""
			}
			continue
		}
		if p.Peek() != '"' {
			return ""
		}
		text, err := p.Text()
		if err != nil {
			return ""
		}
		return string(text)
	}
	return ""
}
