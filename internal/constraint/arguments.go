package constraint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxUnescape is how often a value may be percent-encoded over and over.
const maxUnescape = 4

// ErrArguments is arguments that lie outside of their limits. Its reason code
// is nacre.ReasonArgumentConstraint.
var ErrArguments = errors.New("arguments are outside of their limits")

// CheckArguments holds a call's arguments against limits. What cannot be held against them, such as a number against a prefix,
// is refused with ErrArguments. So are limits that make no sense.
func CheckArguments(limits nacre.ArgumentLimits, arguments json.RawMessage) error {
	if limits.IsZero() {
		return nil
	}
	members, err := wire.Object(arguments, wire.Limits{Message: wire.MaxCanonical, String: wire.MaxCanonical})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArguments, err)
	}
	if limits.AllowedKeys != nil {
		for _, m := range members { // ends where there are more than are allowed: no key is there twice
			if !slices.Contains(limits.AllowedKeys, m.Key) {
				return fmt.Errorf("%w: argument %.80q is not among those allowed", ErrArguments, m.Key)
			}
		}
	}
	slices.SortFunc(members, func(a, b wire.Member) int { return strings.Compare(a.Key, b.Key) })
	for name, want := range limits.Pinned {
		if value := valueOf(members, name); value == nil || !Equal(value, want) {
			return fmt.Errorf("%w: argument %.80q must be there with the value it is pinned to", ErrArguments, name)
		}
	}
	for name, prefix := range limits.Prefix {
		if err := checkPrefix(name, prefix, valueOf(members, name)); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns nil where there is no such member.
func valueOf(members []wire.Member, name string) json.RawMessage {
	i, ok := slices.BinarySearchFunc(members, name, func(m wire.Member, name string) int { return strings.Compare(m.Key, name) })
	if !ok {
		return nil
	}
	return members[i].Value
}

func checkPrefix(name, prefix string, value json.RawMessage) error {
	s, ok := wire.Text(value)
	if !ok {
		return fmt.Errorf("%w: argument %.80q must be there as a string", ErrArguments, name)
	}
	if !strings.HasPrefix(s, prefix) || !stays(prefix, s) {
		return fmt.Errorf("%w: argument %.80q must begin with %.80q and stay there", ErrArguments, name, prefix)
	}
	return nil
}

// stays reports whether s, read as the most lenient reader of paths would,
// still begins with prefix once "." and ".." are resolved.
func stays(prefix, s string) bool {
	prefix, ok := lenient(prefix)
	if !ok {
		return false
	}
	if s, ok = lenient(s); !ok || !strings.HasPrefix(s, prefix) || otherHost(prefix, s) {
		return false
	}
	root := strings.LastIndexByte(prefix, '/') + 1
	for _, segment := range strings.Split(prefix[:root], "/") {
		if IsDots(segment, "..") {
			return false
		}
	}
	resolved, ok := resolve(s[root:])
	return ok && strings.HasPrefix(resolved, prefix[root:])
}

// otherHost reports whether a URL has the whole of its prefix for a user's name:
// https://good.test@evil.test begins with https://good.test.
func otherHost(prefix, s string) bool {
	_, host, ok := strings.Cut(prefix, "://")
	if !ok || strings.ContainsAny(host, "/?#@") {
		return false
	}
	rest := s[len(prefix):]
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.Contains(rest, "@")
}

// lenient undoes what readers of paths undo. That is percent-encoding, however often, backslashes, characters that look like a
// dot or a slash, and the line breaks and tabs that readers of URLs drop.
func lenient(s string) (string, bool) {
	for range maxUnescape {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return "", false
		}
		plain := Unescape(strings.Map(Fold, s))
		if plain == s {
			return s, true
		}
		s = plain
	}
	return "", false
}

// Unescape undoes percent-encoding once.
func Unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// Fold is what lenient readers of paths and URLs take a character for; -1 is
// one that they drop.
func Fold(r rune) rune {
	switch r {
	case '\\', '\u2044', '\u2215', '\u2216', '\u29f5', '\u29f8', '\u29f9', '\ufe68', '\uff0f', '\uff3c':
		return '/'
	case '\u2024', '\ufe52', '\uff0e', '\u3002', '\uff61':
		return '.'
	case '\t', '\n', '\r', '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff', '\u00ad':
		return -1
	case '\ufe6a', '\uff05':
		return '%'
	}
	return r
}

// IsDots reports whether a part of a path is dots; it reads "..;x" and ".. " as readers do that cut off parameters and spaces.
func IsDots(segment, dots string) bool {
	segment, _, _ = strings.Cut(segment, ";")
	return strings.ReplaceAll(strings.TrimSpace(segment), "\u2025", "..") == dots
}

// resolve takes out "." and ".."; it reports false where that climbs above the
// start.
func resolve(path string) (string, bool) {
	var kept []string
	for _, segment := range strings.Split(path, "/") {
		switch {
		case IsDots(segment, "."):
		case !IsDots(segment, ".."):
			kept = append(kept, segment)
		default:
			for len(kept) > 0 && kept[len(kept)-1] == "" {
				kept = kept[:len(kept)-1] // "//" is one step
			}
			if len(kept) == 0 {
				return "", false
			}
			kept = kept[:len(kept)-1]
		}
	}
	return strings.Join(kept, "/"), true
}
