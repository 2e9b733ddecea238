package terminal

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Writer writes to out what a terminal of that style can show: where its locale has no
// UTF-8, nacre's own signs in ASCII, and every other character as an escape.
func Writer(out io.Writer, style Style) io.Writer {
	if style.Unicode {
		return out
	}
	return ascii{out}
}

// shown is a text as a terminal of that style shows it.
func (s Style) shown(text string) string {
	if s.Unicode {
		return text
	}
	return inASCII(text)
}

type ascii struct{ out io.Writer }

// Shown is a text as it is written.
func (ascii) Shown(text string) string { return inASCII(text) }

// Write implements [io.Writer]. A character does not go on in the next call.
func (a ascii) Write(b []byte) (int, error) {
	if _, err := io.WriteString(a.out, inASCII(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// inASCII is a text without what only Unicode has. An escape is that of [Escape].
func inASCII(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch plain := sign(r); {
		case plain != "":
			b.WriteString(plain)
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// sign is what stands for a sign of nacre's own words.
func sign(r rune) string {
	switch r {
	case '·', '–', '—':
		return "-"
	case '…':
		return "..."
	case '→':
		return "->"
	case '▸', '↳':
		return ">"
	case '←':
		return "<-"
	case '✓':
		return "+"
	case '✕', '×':
		return "x"
	case '│':
		return "|"
	case '⏎':
		return `\n`
	case '“', '”':
		return `"`
	case '’':
		return "'"
	case '≤':
		return "<="
	case '≥':
		return ">="
	default:
		return ""
	}
}
