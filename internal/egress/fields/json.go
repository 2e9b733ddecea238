package fields

import (
	"bytes"
	"encoding/json"
	"strings"
)

// jsonNames reads the names of a JSON document's own members, and of each of several documents
// that follow one another. It reads every byte once, and keeps one name.
type jsonNames struct {
	// strict refuses what is not JSON as everybody reads it: a comment, or letters of two bytes,
	// in which a server could see other names. Else such a text is no JSON, and is let be.
	strict bool
	begun  bool // something of the text came
	over   bool // it is no JSON
	depth  int
	// object says that the document is an object, wants that its next string is a name.
	object, wants bool
	quoted        bool
	escaped       bool
	naming        bool
	name          []byte
	long          bool // there was more of the name than is kept
}

// jsonMark is what some put before a text in UTF-8.
const jsonMark = "\xef\xbb\xbf"

func (f *jsonNames) next(piece []byte) (found bool) {
	for i := 0; i < len(piece) && !f.over; i++ {
		c := piece[i]
		switch {
		case f.quoted:
			found = f.inString(c) || found
		case c == '"':
			f.begun, f.quoted, f.naming = true, true, f.wants
			f.name, f.long = f.name[:0], false
		default:
			found = f.between(c) || found
		}
	}
	return found
}

// inString takes a byte of a string. Of a name that is too long, what is kept is looked at.
func (f *jsonNames) inString(c byte) (found bool) {
	switch {
	case f.escaped:
		f.escaped = false
	case c == '\\':
		f.escaped = true
	case c == '"':
		f.quoted = false
		if !f.naming {
			return false
		}
		f.wants = false
		return Steers(Parameter(unquoted(f.name)))
	}
	switch {
	case !f.naming || f.long:
	case len(f.name) < maxFormName:
		f.name = append(f.name, c)
	default:
		f.long = true
		return mayGoOnToSteer(unquoted(f.name))
	}
	return false
}

// unquoted is what stands between quotes, as far as it is whole: its end may be half of an escape.
func unquoted(text []byte) (name string) {
	for cut := range min(len(text), len(`\u0000`)) {
		if json.Unmarshal(bytes.Join([][]byte{nil, text[:len(text)-cut], nil}, []byte{'"'}), &name) == nil {
			return name
		}
	}
	return string(text)
}

// between takes a byte outside of strings.
func (f *jsonNames) between(c byte) (found bool) {
	first := !f.begun
	switch c {
	case ' ', '\t', '\r', '\n', 0x1e: // the last one begins a document of a sequence (RFC 7464)
		return false
	case '{', '[':
		if f.depth == 0 {
			f.object = c == '{'
		}
		f.depth++
		f.wants = c == '{' && f.depth == 1
	case '}', ']':
		f.depth--
		f.wants = false
	case ',':
		f.wants = f.object && f.depth == 1
	case ':', '-', '+', '.':
	default:
		mark := first && strings.IndexByte(jsonMark, c) >= 0
		if !isAlphanumeric(c) && !mark {
			f.over = true
			return f.strict
		}
		if mark {
			return false
		}
	}
	f.begun = true
	if first && !f.strict && c != '{' && c != '[' { // a plain text
		f.over = true
	}
	return false
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
