package reference

import (
	"bytes"
	"strings"
)

// The bounds of a hint, in bytes: a shorter value, and a longer domain, have none.
const (
	minHinted  = 8
	maxDomain  = 40
	hintedTail = 2
)

// hint is what may be seen of a value of a kind: enough to tell it from others, and too
// little to use it. Empty where the value is not spelled as its kind is.
func hint(kind, value string) string {
	if len(value) < minHinted {
		return ""
	}
	if kind == "email" {
		return emailHint(value)
	}
	tail := value[len(value)-hintedTail:]
	if !plain(tail) {
		return ""
	}
	return "(…" + tail + ")"
}

// emailHint is the first letter of an address and the last two labels of its domain.
func emailHint(value string) string {
	local, domain, ok := strings.Cut(value, "@")
	labels := strings.Split(domain, ".")
	if !ok || len(local) < 3 || len(labels) < 2 || len(domain) > maxDomain || !plain(local[:1]) || !plain(domain) {
		return ""
	}
	more := ""
	if len(labels) > 2 {
		more = "…"
	}
	return "(" + local[:1] + "…@" + more + strings.Join(labels[len(labels)-2:], ".") + ")"
}

// plain reports whether a text has nothing but letters, digits, dots and hyphens of ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; !isLower(c) && !isDigit(s[i]) && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return s != ""
}

// behind is the hint that follows a word, where it is that of its value.
func behind(text []byte, word, value string) string {
	kind, _, _ := strings.Cut(word, ":")
	if h := hint(kind, value); len(text) > 0 && text[0] == '(' && bytes.HasPrefix(text, []byte(h)) {
		return h
	}
	return ""
}
