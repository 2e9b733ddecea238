package question

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape writes every character that is not plainly visible where it stands as <U+202E>. Such are
// control and newline, bidirectional, zero-width and filler characters, variation selectors,
// private and unassigned ones, and marks that are drawn over other text. Bytes that are not UTF-8
// become <FF>.
func Escape(s string) string {
	var b strings.Builder
	after := ' '
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
			r = ' '
		case visible(r, after):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
			r = ' '
		}
		after = r
		i += size
	}
	return b.String()
}

// brailleBlank is a symbol without ink.
const brailleBlank = '\u2800'

// overlays are the marks that strike through the letter before them.
const firstOverlay, lastOverlay = '\u0334', '\u0338'

// visible reports whether r can be seen for what it is after the rune before it.
func visible(r, after rune) bool {
	switch {
	case !unicode.IsPrint(r) || r == brailleBlank:
		return false
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Me):
		return false
	case r >= firstOverlay && r <= lastOverlay:
		return false
	case unicode.Is(unicode.M, r):
		return unicode.IsLetter(after) // one mark a letter: no towers over other lines
	}
	return true
}
