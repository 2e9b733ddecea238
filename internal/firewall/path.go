package firewall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxSteps is how many steps a path has at most.
const maxSteps = 100

// ErrPath is returned for a path that cannot be read, or that leads to nothing.
var ErrPath = errors.New("path")

// Path leads from a result to a value inside of it. The empty one is the result.
type Path []step

// step goes to a member of an object, or to an element of an array.
type step struct {
	name    string
	element int
	named   bool
}

// ParsePath reads a path such as data.issues[3].title or ["a.b"][0]. An error is ErrPath.
func ParsePath(text string) (Path, error) {
	var path Path
	for rest := text; rest != ""; {
		next, left, err := nextStep(rest, len(path) == 0)
		if err != nil || len(path) == maxSteps {
			return nil, fmt.Errorf("%w %.60q cannot be read at %.20q: write it like data.issues[3].title, or like [\"a.b\"] for other names", ErrPath, text, rest)
		}
		path, rest = append(path, next), left
	}
	return path, nil
}

func nextStep(rest string, first bool) (s step, left string, err error) {
	switch {
	case rest[0] == '[' && len(rest) > 1 && rest[1] == '"':
		c := cursor{data: []byte(rest), at: 1}
		c.text()
		if c.bad || c.at >= len(rest) || rest[c.at] != ']' {
			return s, "", ErrPath
		}
		return step{name: plain(c.data[1:c.at]), named: true}, rest[c.at+1:], nil
	case rest[0] == '[':
		end := bytes.IndexByte([]byte(rest), ']')
		if end < 0 {
			return s, "", ErrPath
		}
		n, err := strconv.ParseUint(rest[1:end], 10, 31)
		return step{element: int(n)}, rest[end+1:], err
	case rest[0] == '.' && !first:
		rest = rest[1:]
	case !first:
		return s, "", ErrPath
	}
	end := 0
	for end < len(rest) && isPlainName(rest[end]) {
		end++
	}
	if end == 0 {
		return s, "", ErrPath
	}
	return step{name: rest[:end], named: true}, rest[end:], nil
}

// isPlainName reports whether a byte of a name needs no quotes in a path.
func isPlainName(b byte) bool {
	return b == '_' || b == '-' || b == '$' || b == '@' || isDigit(b) || 'a' <= b|' ' && b|' ' <= 'z' || b >= 0x80
}

// appendName appends the step to a member, whose name comes in its quotes.
func appendName(path, quoted []byte) []byte {
	name := quoted[1 : len(quoted)-1]
	for _, b := range name {
		if !isPlainName(b) {
			return append(append(append(path, '['), quoted...), ']')
		}
	}
	if len(name) == 0 {
		return append(path, `[""]`...)
	}
	if len(path) > 0 {
		path = append(path, '.')
	}
	return append(path, name...)
}

func appendElement(path []byte, i int) []byte {
	return append(strconv.AppendInt(append(path, '['), int64(i), 10), ']')
}

// Reaches says where a path leads: into a row, to all of the rows, or, where row is -1
// and rows is not set, to what stands beside them.
func (r *Result) Reaches(path Path) (row int, rows bool) {
	at := 0
	switch r.shape {
	case sole:
		return 0, false
	case wrapped:
		if len(path) == 0 {
			return -1, true
		}
		if !path[0].named || path[0].name != plain(r.wrap) {
			return -1, false
		}
		at = 1
	case listed:
	}
	if len(path) == at {
		return -1, true
	}
	if path[at].named {
		return -1, false
	}
	return path[at].element, false
}

// One reports whether the whole result is its one row.
func (r *Result) One() bool { return r.shape == sole }

// PathOf is the path to a row.
func (r *Result) PathOf(row int) string {
	switch r.shape {
	case wrapped:
		return string(appendElement(appendName(nil, r.wrap), row))
	case listed:
		return string(appendElement(nil, row))
	case sole:
	}
	return ""
}

// Raw is the whole result, as far as it may be seen. It must not be changed.
func (r *Result) Raw() json.RawMessage { return r.raw }

// At is the value that a path leads to. An error is ErrPath.
func At(raw json.RawMessage, path Path) (json.RawMessage, error) {
	for i, s := range path {
		var found []byte
		if s.named {
			eachMember(raw, func(name, value []byte) {
				if found == nil && says(name, s.name) {
					found = value
				}
			})
		} else {
			n := 0
			eachElement(raw, func(value []byte) bool {
				if n == s.element {
					found = value
				}
				n++
				return found == nil
			})
		}
		if found == nil {
			return nil, fmt.Errorf("%w: its step %d leads to nothing", ErrPath, i+1)
		}
		raw = found
	}
	return raw, nil
}
