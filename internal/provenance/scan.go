package provenance

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxDepth is how deep JSON is read; what is deeper was seen nowhere.
const maxDepth = 128

// scanner walks over JSON. It does not check all of it: what it walks over is
// either known to be valid or, where it turns out not to be, left.
type scanner struct {
	data []byte
	pos  int
}

// peek returns the next byte after white space, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
		default:
			return s.data[s.pos]
		}
	}
	return 0
}

// text reads a string and returns what stands between its quotes.
func (s *scanner) text() (raw []byte, ok bool) {
	if s.peek() != '"' {
		return nil, false
	}
	start := s.pos + 1
	for at := start; ; at++ {
		i := bytes.IndexByte(s.data[at:], '"')
		if i < 0 {
			s.pos = len(s.data)
			return nil, false
		}
		at += i
		escapes := 0
		for at-escapes > start && s.data[at-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.pos = at + 1
			return s.data[start:at], true
		}
	}
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() []byte {
	s.peek()
	start := s.pos
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ',', ']', '}', ' ', '\t', '\r', '\n', '"', '[', '{', ':':
			return s.data[start:s.pos]
		}
		s.pos++
	}
	return s.data[start:]
}

// next reads what follows an element: true where another one does.
func (s *scanner) next() bool {
	c := s.peek()
	s.pos++
	return c == ','
}

// key reads a key and its colon.
func (s *scanner) key() (raw []byte, ok bool) {
	if raw, ok = s.text(); !ok || s.peek() != ':' {
		return nil, false
	}
	s.pos++
	return raw, true
}

// empty enters a container and reports whether it ends at once.
func (s *scanner) empty() bool {
	s.peek()
	s.pos++
	if c := s.peek(); c == '}' || c == ']' {
		s.pos++
		return true
	}
	return false
}

// skip walks over one value, however deep, and returns it.
func (s *scanner) skip() []byte {
	c := s.peek()
	start := s.pos
	if c == '"' {
		_, _ = s.text() // its end is all that is wanted
		return s.data[start:s.pos]
	}
	if c != '{' && c != '[' {
		return s.scalar()
	}
	for depth := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			_, _ = s.text() // its end is all that is wanted
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.pos++
		if depth == 0 {
			break
		}
	}
	return s.data[start:s.pos]
}

// members calls each with every member of the object in data.
func members(data []byte, each func(key, value []byte)) {
	s := scanner{data: data}
	if s.peek() != '{' || s.empty() {
		return
	}
	for {
		key, ok := s.key()
		if !ok {
			return
		}
		value := s.skip()
		each(key, value)
		if !s.next() {
			return
		}
	}
}

// elements calls each with every element of the array in data.
func elements(data []byte, each func(value []byte)) {
	s := scanner{data: data}
	if s.peek() != '[' || s.empty() {
		return
	}
	for {
		before := s.pos
		value := s.skip()
		if s.pos == before {
			return
		}
		each(value)
		if !s.next() {
			return
		}
	}
}

// unescape returns what a string says. What is not text becomes U+FFFD, with
// which no value is seen.
func unescape(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return []byte(string(utf8.RuneError))
	}
	return []byte(s)
}
