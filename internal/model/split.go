package model

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre/internal/wire"
)

// The functions here take JSON apart that wire has already read strictly, so
// they look for structure only: a long history is read once, not once a level.

// object reads an object; null is an empty one.
func object(value json.RawMessage) (map[string]json.RawMessage, error) {
	if string(value) == "null" {
		return nil, nil
	}
	if len(value) == 0 || value[0] != '{' {
		return nil, errors.New("want an object")
	}
	fields := map[string]json.RawMessage{}
	for i := space(value, 1); i < len(value) && value[i] != '}'; {
		end := skip(value, i)
		key, _ := wire.Text(value[i:end])
		i = space(value, end) // the colon
		i = space(value, i+1) // the value
		end = skip(value, i)  // its end
		fields[key] = value[i:end]
		if i = space(value, end); i < len(value) && value[i] == ',' {
			i = space(value, i+1)
		}
	}
	return fields, nil
}

// array reads an array; null and nothing are empty ones.
func array(value json.RawMessage) ([]json.RawMessage, error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, nil
	}
	if value[0] != '[' {
		return nil, errors.New("want an array")
	}
	var items []json.RawMessage
	for i := space(value, 1); i < len(value) && value[i] != ']'; {
		end := skip(value, i)
		items = append(items, value[i:end])
		if i = space(value, end); i < len(value) && value[i] == ',' {
			i = space(value, i+1)
		}
	}
	return items, nil
}

// text reads a string.
func text(value json.RawMessage) (string, bool) { return wire.Text(value) }

// space is the first index from i that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip is the index after the value that begins at i.
func skip(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			i = skipWord(b, i)
		}
		if depth <= 0 {
			return min(i, len(b))
		}
	}
	return len(b)
}

// skipString is the index after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		end := i + n
		escapes := 0
		for escapes < n && b[end-1-escapes] == '\\' {
			escapes++
		}
		i = end + 1
		if escapes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// skipWord is the index after a number, true, false or null.
func skipWord(b []byte, i int) int {
	for i < len(b) && bytes.IndexByte([]byte(",:]} \t\n\r"), b[i]) < 0 {
		i++
	}
	return i
}
