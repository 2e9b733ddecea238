package wire

import (
	"fmt"
	"unicode/utf8"
)

// scanner reads one value by recursion that its depth limit bounds.
type scanner struct {
	data   []byte
	pos    int
	limits Limits
	// members is at which depth top collects them: 1, or 0 for none.
	members int
	top     []Member
	// open are the keys of the objects that are open.
	open [][]byte
}

func (s *scanner) fail(reason string) error { return &Error{Offset: s.pos, Reason: reason} }

// peek returns the next byte, or 0 at the end; no JSON token starts with 0.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value reads one value inside depth containers.
func (s *scanner) value(depth int) error {
	s.space()
	c := s.peek()
	switch {
	case c == '{' || c == '[':
		if depth == s.limits.Depth {
			return s.fail(fmt.Sprintf("nested deeper than %d", s.limits.Depth))
		}
		s.pos++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '"':
		_, _, err := s.text()
		return err
	case c == '-' || isDigit(c):
		return s.number()
	}
	return s.literal()
}

func (s *scanner) object(depth int) error {
	if s.space(); s.peek() == '}' {
		s.pos++
		return nil
	}
	if s.open == nil {
		s.open = make([][]byte, 0, fewKeys/2)
	}
	keys := keySet{few: s.open, start: len(s.open)}
	defer func() { s.open = keys.few[:keys.start] }()
	for {
		s.space()
		key, err := s.key(&keys)
		if err != nil {
			return err
		}
		s.open = keys.few
		s.space()
		start := s.pos
		if err := s.value(depth); err != nil {
			return err
		}
		if depth == s.members {
			if s.top == nil {
				s.top = make([]Member, 0, mostMembers)
			}
			s.top = append(s.top, Member{Key: nameOf(key), Value: s.data[start:s.pos:s.pos]})
		}
		if done, err := s.next('}'); done || err != nil {
			return err
		}
	}
}

// mostMembers is how many members the objects have that are read most: an envelope's.
const mostMembers = 9

// nameOf is string, without memory for the names that nearly every message has.
func nameOf(key []byte) string {
	for _, name := range [...]string{
		"topic", "correlation", "arguments", "id", "version", "type", "source", "timestamp", "group", "payload", "result", "error",
	} {
		if string(key) == name {
			return name
		}
	}
	return string(key)
}

// key reads a key that is new to the object, and the colon after it.
func (s *scanner) key(keys *keySet) ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.fail("want a key in double quotes")
	}
	start := s.pos
	raw, escaped, err := s.text()
	if err != nil {
		return nil, err
	}
	key := raw
	if escaped {
		key = unescape(raw)
	}
	if !keys.add(key, s.limits.CaseSensitive) {
		s.pos = start
		return nil, s.fail("duplicate key " + QuoteName(key))
	}
	if s.space(); s.peek() != ':' {
		return nil, s.fail("want a colon after the key")
	}
	s.pos++
	return key, nil
}

func (s *scanner) array(depth int) error {
	if s.space(); s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next reads what follows an element: a comma, or the end of its container.
func (s *scanner) next(end byte) (done bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		return false, nil
	case end:
		s.pos++
		return true, nil
	}
	return false, s.fail("want a comma or " + string(rune(end)))
}

// text reads a string and returns what stands between its quotes.
func (s *scanner) text() (raw []byte, escaped bool, err error) {
	s.pos++
	start, size := s.pos, 0
	for {
		plain := plainText(s.data[s.pos:])
		s.pos, size = s.pos+plain, size+plain
		if size > s.limits.String {
			return nil, false, s.tooLong()
		}
		if s.pos == len(s.data) {
			return nil, false, s.fail("string without an end")
		}
		width, bytes := 0, 0
		switch c := s.data[s.pos]; {
		case c == '"':
			raw = s.data[start:s.pos]
			s.pos++
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			width, bytes, err = s.escape()
		case c < ' ':
			err = s.fail("control character in a string")
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				err = s.fail("not valid UTF-8")
			}
			width, bytes = n, n
		}
		if err != nil {
			return nil, false, err
		}
		if size += bytes; size > s.limits.String {
			return nil, false, s.tooLong()
		}
		s.pos += width
	}
}

func (s *scanner) tooLong() error {
	return s.fail(fmt.Sprintf("string longer than %d bytes", s.limits.String))
}

// plainText counts the bytes that b begins with and that stand for themselves
// in a string.
func plainText(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(b)
}

// escape measures the escape at pos: its width as written and its bytes once
// decoded. Half a surrogate pair is refused, since decoders turn every one into U+FFFD.
func (s *scanner) escape() (width, bytes int, err error) {
	rest := s.data[s.pos:]
	if len(rest) < 2 {
		return 0, 0, s.fail("string without an end")
	}
	if rest[1] != 'u' {
		if simpleEscape(rest[1]) == 0 {
			return 0, 0, s.fail("unknown escape")
		}
		return 2, 1, nil
	}
	r, width := decodeEscape(rest)
	if r < 0 {
		return 0, 0, s.fail("malformed unicode escape")
	}
	return width, utf8.RuneLen(r), nil
}

func (s *scanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	whole := s.pos
	if s.digits() == 0 || (s.data[whole] == '0' && s.pos > whole+1) {
		return s.fail("malformed number")
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			return s.fail("malformed number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		if err := s.exponent(); err != nil {
			return err
		}
	}
	if s.pos-start > MaxNumber {
		return s.fail(fmt.Sprintf("number longer than %d bytes", MaxNumber))
	}
	return nil
}

func (s *scanner) exponent() error {
	s.pos++
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	start := s.pos
	if s.digits() == 0 {
		return s.fail("malformed number")
	}
	value := 0
	for _, c := range s.data[start:s.pos] {
		if value = value*10 + int(c-'0'); value > MaxExponent {
			return s.fail(fmt.Sprintf("exponent over %d", MaxExponent))
		}
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) literal() error {
	for _, word := range [...]string{"true", "false", "null"} {
		if n := len(word); len(s.data)-s.pos >= n && string(s.data[s.pos:s.pos+n]) == word {
			s.pos += n
			return nil
		}
	}
	if s.pos == len(s.data) {
		return s.fail("want a JSON value, have the end")
	}
	return s.fail("want a JSON value")
}
