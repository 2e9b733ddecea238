// Package ownid tells the ids that nacre makes, and the names that people give to its
// sessions, from what opens something. It is pure.
package ownid

import "strings"

// base32 is what the random part of nacre's own ids is written in, in either case.
const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Made reports whether a value is an id that nacre made: of a memory, an import's session
// or a schedule. They open nothing.
func Made(v string) bool {
	for _, id := range [...]struct { // how it begins, and how many random signs follow
		prefix string
		signs  int
		upper  bool
	}{{"mem-", 26, true}, {"import-", 12, false}, {"task-", 10, false}} {
		rest, ok := strings.CutPrefix(v, id.prefix)
		if !ok || len(rest) != id.signs {
			continue
		}
		if !id.upper {
			if rest != strings.ToLower(rest) {
				return false
			}
			rest = strings.ToUpper(rest)
		}
		return strings.Trim(rest, base32) == ""
	}
	return false
}

const (
	// maxSpoken is the longest name of a session in nacre.
	maxSpoken = 40
	// maxNumber is the longest number in a name that somebody chose, such as a date's,
	// and maxMixed the longest part of letters and digits, such as nacre's short ids.
	maxNumber = 8
	maxMixed  = 6
)

// Spoken reports whether a session's id was made of words and short numbers, as
// people name their sessions: release-notes-2026-11. One that opens something has a
// long random part.
func Spoken(v string) bool {
	if len(v) > maxSpoken {
		return false
	}
	for part := range strings.SplitSeq(v, "-") {
		letters, digits := 0, 0
		for _, c := range []byte(part) {
			switch {
			case c >= 'a' && c <= 'z':
				letters++
			case c >= '0' && c <= '9':
				digits++
			default:
				return false
			}
		}
		if digits > maxNumber || letters > 0 && digits > 0 && len(part) > maxMixed {
			return false
		}
	}
	return true
}
