package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep JSON may nest here.
const maxDepth = 64

var errJSON = errors.New("not valid JSON, or JSON that two readers may read differently")

// canonicalJSON returns the one form of a value: members sorted and each there
// once, strings with no more escapes than they need, and numbers by what they
// are worth, so that 1, 1.0 and 1e0 are one value and 1 and true are two.
func canonicalJSON(raw []byte) ([]byte, error) {
	r := jsonReader{src: raw}
	b, err := r.value(make([]byte, 0, len(raw)+8), 0)
	if err != nil {
		return nil, err
	}
	if r.space(); r.pos != len(raw) {
		return nil, errJSON
	}
	return b, nil
}

// member is one name of an object with its value in canonical form.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns an object's members, sorted by name.
func membersOf(raw []byte) ([]member, error) {
	r := jsonReader{src: raw}
	if r.space(); r.peek() != '{' {
		return nil, fmt.Errorf("%w: an object is needed", errJSON)
	}
	members, err := r.members(0)
	if err != nil {
		return nil, err
	}
	if r.space(); r.pos != len(raw) {
		return nil, errJSON
	}
	return members, nil
}

type jsonReader struct {
	src []byte
	pos int
}

func (r *jsonReader) space() {
	for r.pos < len(r.src) && strings.IndexByte(" \t\r\n", r.src[r.pos]) >= 0 {
		r.pos++
	}
}

// peek returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	if r.pos == len(r.src) {
		return 0
	}
	return r.src[r.pos]
}

// next skips white space and reports whether c follows; then it is read.
func (r *jsonReader) next(c byte) bool {
	if r.space(); r.peek() != c {
		return false
	}
	r.pos++
	return true
}

func (r *jsonReader) value(b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", errJSON, maxDepth)
	}
	switch r.space(); r.peek() {
	case '{':
		return r.object(b, depth)
	case '[':
		return r.array(b, depth)
	case '"':
		s, err := r.text()
		return appendText(b, s), err
	case 't':
		return r.word(b, "true")
	case 'f':
		return r.word(b, "false")
	case 'n':
		return r.word(b, "null")
	}
	return r.number(b)
}

func (r *jsonReader) word(b []byte, word string) ([]byte, error) {
	if !strings.HasPrefix(string(r.src[r.pos:min(len(r.src), r.pos+len(word))]), word) {
		return nil, errJSON
	}
	r.pos += len(word)
	return append(b, word...), nil
}

func (r *jsonReader) array(b []byte, depth int) ([]byte, error) {
	r.pos++
	b = append(b, '[')
	if r.next(']') {
		return append(b, ']'), nil
	}
	for {
		var err error
		if b, err = r.value(b, depth+1); err != nil {
			return nil, err
		}
		if r.next(']') {
			return append(b, ']'), nil
		}
		if !r.next(',') {
			return nil, errJSON
		}
		b = append(b, ',')
	}
}

func (r *jsonReader) object(b []byte, depth int) ([]byte, error) {
	members, err := r.members(depth)
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(appendText(b, m.name), ':'), m.value...)
	}
	return append(b, '}'), err
}

func (r *jsonReader) members(depth int) ([]member, error) {
	r.pos++
	var members []member
	for first := true; ; first = false {
		if first && r.next('}') {
			return nil, nil
		}
		if r.space(); r.peek() != '"' {
			return nil, errJSON
		}
		name, err := r.text()
		if err != nil {
			return nil, err
		}
		if !r.next(':') {
			return nil, errJSON
		}
		value, err := r.value(nil, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, value})
		if r.next('}') {
			return sortMembers(members)
		}
		if !r.next(',') {
			return nil, errJSON
		}
	}
}

func sortMembers(members []member) ([]member, error) {
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			return nil, fmt.Errorf("%w: %.80q is there twice", errJSON, members[i].name)
		}
	}
	return members, nil
}

// text reads a string and undoes its escapes.
func (r *jsonReader) text() (string, error) {
	start := r.pos
	for r.pos++; r.pos < len(r.src); r.pos++ {
		switch c := r.src[r.pos]; {
		case c == '"':
			r.pos++
			return unquote(r.src[start:r.pos])
		case c == '\\':
			r.pos++
		case c < ' ':
			return "", errJSON
		}
	}
	return "", errJSON
}

// unquote refuses what encoding/json would put right: bytes that are not UTF-8
// and halves of surrogate pairs, which would make two strings one.
func unquote(quoted []byte) (string, error) {
	if !utf8.Valid(quoted) || halfPair(quoted) {
		return "", fmt.Errorf("%w: a string is not Unicode", errJSON)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", fmt.Errorf("%w: %w", errJSON, err)
	}
	return s, nil
}

func halfPair(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		i++
		switch unit := escapedUnit(quoted[i-1:]); {
		case unit < 0xd800 || unit > 0xdfff:
		case unit > 0xdbff:
			return true
		default:
			if low := escapedUnit(quoted[min(len(quoted), i+5):]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 6 + 4
		}
	}
	return false
}

// escapedUnit reads \uXXXX at the start of b, and returns -1 where there is none.
func escapedUnit(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return int(unit) //nolint:gosec // four hex digits
}

func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
