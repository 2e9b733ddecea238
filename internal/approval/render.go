package approval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// The most that is shown of each part of a question, in bytes.
const (
	maxArguments = 4 << 10
	maxWords     = 512
	maxWhy       = 512
	// maxOrigins is how many risky values are told apart.
	maxOrigins = 12
	// maxFiles is how many files, maxArgument and maxName how much of each, and
	// shownDigest how much of its digest.
	maxFiles    = 16
	maxArgument = 64
	maxName     = 256
	shownDigest = 16
)

// Render shows a question as data, on a few lines: nothing in it can move the
// cursor, reorder what is read, or hide. What is left out is marked, and the
// agent's own words are named as such (D-13).
func Render(q nacre.Question) string {
	if text, ok := renderEgress(q); ok {
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "? %s  %s wants to run\n", Escape(q.ID), shown(string(q.Group), maxWhy))
	fmt.Fprintf(&b, "    tool       %s\n", shown(string(q.Capability), maxWhy))
	fmt.Fprintf(&b, "    arguments  %s\n", shown(string(q.Arguments), maxArguments))
	for _, file := range q.Files[:min(len(q.Files), maxFiles)] {
		fmt.Fprintf(&b, "    %s\n", describe(file))
	}
	if more := len(q.Files) - maxFiles; more > 0 {
		fmt.Fprintf(&b, "    and %d more files are not shown\n", more)
	}
	for _, origin := range q.Origins[:min(len(q.Origins), maxOrigins)] {
		fmt.Fprintf(&b, "    %s\n", shown(cameFrom(origin), maxWhy))
	}
	if more := len(q.Origins) - maxOrigins; more > 0 {
		fmt.Fprintf(&b, "    and %d more risky values are not shown\n", more)
	}
	if q.Why != "" {
		fmt.Fprintf(&b, "    asked for  %s\n", shown(q.Why, maxWhy))
	}
	if q.AgentWords != "" {
		fmt.Fprintf(&b, "    the agent says (not checked): \"%s\"\n", shown(q.AgentWords, maxWords))
	}
	fmt.Fprintf(&b, "    expires    %s\n", q.Expires.Format("15:04:05 MST"))
	return b.String()
}

// describe says what a file that would be used is, and not what it holds. Its
// name is the agent's, so it comes last: nothing in it can pass for the rest.
func describe(f nacre.FilePin) string {
	digest := f.SHA256[:min(len(f.SHA256), shownDigest)]
	return fmt.Sprintf("file       %s: %d bytes, sha256 %s…, \"%s\"",
		shown(f.Argument, maxArgument), f.Bytes, Escape(digest), shown(f.Name, maxName))
}

// cameFrom says where a risky value was seen (K-26).
func cameFrom(o nacre.Origin) string {
	switch {
	case o.Provenance == nacre.SeenNowhere || len(o.Sources) == 0:
		return fmt.Sprintf("%s came from nowhere that is known: the agent made it up or put it together", o.Argument)
	case o.Provenance.Label() == nacre.Trusted:
		return fmt.Sprintf("%s was seen in %s", o.Argument, strings.Join(o.Sources, ", "))
	default:
		return fmt.Sprintf("%s came from an UNTRUSTED source: %s", o.Argument, strings.Join(o.Sources, ", "))
	}
}

func shown(s string, limit int) string {
	if len(s) <= limit {
		return Escape(s)
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s <CUT: %d more bytes are not shown>", Escape(s[:end]), len(s)-end)
}

// Escape writes every character that is not plainly visible where it stands as
// <U+202E>: control and newline, bidirectional, zero-width and filler
// characters, variation selectors, private and unassigned ones, and marks that
// are drawn over other text. Bytes that are not UTF-8 become <FF>.
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
