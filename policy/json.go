package policy

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The limits of looking into arguments.
const (
	maxArgumentDepth = 16
	maxElements      = 1024
)

// lookup finds the raw value at a dotted path of valid JSON. A part that is a
// number counts the elements of a list. twice says that an object on the way
// has the key more than once, so that nobody knows which is meant.
func lookup(raw, dotted string) (value string, found, twice bool) {
	for {
		key, rest, more := strings.Cut(dotted, ".")
		value, found, twice = member(raw, key)
		if !found || twice || !more {
			return value, found, twice
		}
		raw, dotted = value, rest
	}
}

func member(raw, key string) (value string, found, twice bool) {
	index, err := strconv.Atoi(key)
	isIndex := err == nil && strconv.Itoa(index) == key
	m := membersOf(raw)
	for n := 0; ; n++ {
		name, v, after, ok := m.next()
		if !ok {
			return value, found, twice
		}
		if m.object && unquoteIs(name, key) || !m.object && isIndex && n == index {
			value, found, twice = v, true, found
		}
		m = after
	}
}

// members goes through an object or a list of valid JSON, and through nothing
// of any other value.
type members struct {
	rest   string
	object bool
}

func membersOf(raw string) members {
	raw = strings.TrimLeft(raw, " \t\r\n")
	if raw == "" || raw[0] != '{' && raw[0] != '[' {
		return members{}
	}
	return members{raw[1:], raw[0] == '{'}
}

// next is the raw name, of an object's member, the raw value, and what comes
// after. It changes nothing in place, so that what it goes through stays where
// it is.
func (m members) next() (name, value string, after members, ok bool) {
	rest := strings.TrimLeft(m.rest, " \t\r\n,")
	if rest == "" || rest[0] == '}' || rest[0] == ']' {
		return "", "", members{}, false
	}
	if m.object {
		end := skipValue(rest)
		name = rest[:end]
		rest = strings.TrimLeft(rest[end:], " \t\r\n:")
	}
	end := skipValue(rest)
	return name, rest[:end], members{rest[end:], m.object}, end > 0
}

// skipValue is the length of the value that valid JSON begins with.
func skipValue(raw string) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(raw))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + max(depth, -1) + 1
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(raw)
}

// unquote is the text of a JSON string.
func unquote(raw string) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	var s string
	if json.Unmarshal([]byte(raw), &s) != nil {
		return "", false
	}
	return s, true
}

func unquoteIs(raw, want string) bool {
	text, ok := unquote(raw)
	return ok && text == want
}

// isNumber reports whether a JSON scalar is a number.
func isNumber(s string) bool { return s[0] == '-' || s[0] >= '0' && s[0] <= '9' }
