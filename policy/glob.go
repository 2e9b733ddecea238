package policy

import (
	"fmt"
	"strings"
)

// maxGlob is the longest pattern, in bytes.
const maxGlob = 256

// glob is a pattern in which * stands for any run of characters, dots too.
type glob string

// parseGlob refuses what looks like a richer pattern language: a `?` or `[`
// that silently matched nothing would turn a deny rule into a hole.
func parseGlob(s string) (glob, error) {
	if s == "" || len(s) > maxGlob {
		return "", fmt.Errorf("pattern of %d characters: use 1–%d", len(s), maxGlob)
	}
	for _, r := range s {
		if !isNameRune(r) && r != '*' {
			return "", fmt.Errorf("pattern %q: %q is not part of any name; use letters, digits, _ - . and *", s, r)
		}
	}
	return glob(s), nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
}

func (g glob) matches(name string) bool {
	first, rest, star := strings.Cut(string(g), "*")
	if !star {
		return name == first
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], after
	}
}
