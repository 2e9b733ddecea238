package terminal

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// maxSummary is how much of a text a table has room for, in characters.
const maxSummary = 60

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Columns is how wide a terminal is; Width, where the file is none or does not say it.
func Columns(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		return Width
	}
	return min(max(columns, minColumns), maxColumns)
}

// List shows a list in a line, and other where the list is empty.
func List(list []string, other string) string {
	if len(list) == 0 {
		return other
	}
	return strings.Join(list, ", ")
}

// Summary is as much of a text as a table has room for: its first line, cut.
func Summary(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if runes := []rune(line); len(runes) > maxSummary {
		return string(runes[:maxSummary]) + "…"
	}
	if rest != "" {
		return line + " …"
	}
	return line
}
