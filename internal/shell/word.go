package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Word is one word of a command as the shell would hand it on, as far as that
// can be known without running anything.
type Word struct {
	// Text is the word unquoted; expansions are left out of it.
	Text string
	// Literal says that text is the whole word, whatever the shell's state.
	Literal bool
	// quoted says that an expansion in it cannot become several words.
	quoted bool
	// Tilde says that an unquoted ~ leads it: a path in somebody's home.
	Tilde bool
	// Finds are the programs whose place it holds, as in $(which git).
	Finds []string
	// Dir is where the script has gone before it wrote to what the word names, by a redirection.
	Dir string
	// Fetched says that it begins with a download, or that one is written there.
	Fetched bool
}

// literalWord is a word of which everything is known.
func literalWord(text string) Word { return Word{Text: text, Literal: true, quoted: true} }

// unquote reads a word of the syntax tree.
func unquote(w *syntax.Word) Word {
	out := Word{Literal: true, quoted: true}
	if w == nil {
		return out
	}
	if len(w.Parts) == 1 { // what most words are: plain
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[{~") {
			out.Text = lit.Value
			return out
		}
	}
	var b strings.Builder
	for i, part := range w.Parts {
		out.part(part, &b, i == 0)
	}
	out.Text = b.String()
	if expands(w) {
		out.Literal = false
	}
	return out
}

func (w *Word) part(part syntax.WordPart, b *strings.Builder, first bool) {
	switch part := part.(type) {
	case *syntax.Lit:
		w.Tilde = w.Tilde || first && strings.HasPrefix(part.Value, "~")
		unescape(part.Value, b)
	case *syntax.SglQuoted:
		if part.Dollar {
			b.WriteString(ansi(part.Value))
		} else {
			b.WriteString(part.Value)
		}
	case *syntax.DblQuoted:
		// $"…" is looked up in a catalogue, which may say anything.
		w.Literal = w.Literal && !part.Dollar
		for _, inner := range part.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				unescapeQuoted(lit.Value, b)
				continue
			}
			w.expansion(inner)
		}
	default:
		w.quoted = false
		w.expansion(part)
	}
}

func (w *Word) expansion(part syntax.WordPart) {
	w.Literal = false
	if subst, ok := part.(*syntax.CmdSubst); ok {
		w.Finds = append(w.Finds, lookedUp(subst)...)
	}
}

// lookedUp are the programs whose place $(which NAME) and its like print.
func lookedUp(subst *syntax.CmdSubst) (programs []string) {
	if len(subst.Stmts) != 1 {
		return nil
	}
	call, ok := subst.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 {
		return nil
	}
	switch unquote(call.Args[0]).Text {
	case "which", "command", "type", "whence", "whereis", "readlink", "realpath", "hash", "where":
	default:
		return nil
	}
	for _, arg := range call.Args[1:] {
		programs = append(programs, unquote(arg).Text)
	}
	return programs
}

// expands tells whether unquoted parts of a word may become other text: by
// globs or braces.
func expands(w *syntax.Word) bool {
	var open, comma bool
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := 0; i < len(lit.Value); i++ {
			switch lit.Value[i] {
			case '\\':
				i++
			case '*', '?':
				return true
			case '[':
				if strings.IndexByte(lit.Value[i:], ']') > 0 {
					return true
				}
			case '{':
				open = true
			case ',':
				comma = comma || open
			case '.':
				comma = comma || open && strings.HasPrefix(lit.Value[i:], "..")
			case '}':
				if open && comma {
					return true
				}
			}
		}
	}
	return false
}

// unescape writes unquoted text without its backslashes.
func unescape(s string, b *strings.Builder) {
	if !strings.Contains(s, `\`) {
		b.WriteString(s)
		return
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
}

// unescapeQuoted writes text in double quotes, without the backslashes that mean
// something there.
func unescapeQuoted(s string, b *strings.Builder) { unescapeBefore("$`\"\\", s, b) }

// unescapeHere writes text of a here-document: there, a quote is no more than itself.
func unescapeHere(s string, b *strings.Builder) { unescapeBefore("$`\\", s, b) }

func unescapeBefore(special, s string, b *strings.Builder) {
	if !strings.Contains(s, `\`) {
		b.WriteString(s)
		return
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch next := s[i+1]; {
			case next == '\n':
				i++
				continue
			case strings.IndexByte(special, next) >= 0:
				i++
			}
		}
		b.WriteByte(s[i])
	}
}

// ansi reads $'…', which ends at a NUL.
func ansi(s string) string {
	text, _, _ := strings.Cut(escapes(s), "\x00")
	return text
}

// escapes reads the escapes of printf and of $'…'.
func escapes(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		i += ansiEscape(s[i:], &b) - 1
	}
	return b.String()
}

// ansiEscape writes what the escape after a backslash stands for and returns its length.
func ansiEscape(s string, b *strings.Builder) int {
	const letters, meant = `abeEfnrtv\'"?`, "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"
	if at := strings.IndexByte(letters, s[0]); at >= 0 {
		b.WriteByte(meant[at])
		return 1
	}
	switch s[0] {
	case 'x':
		return 1 + ansiNumber(s[1:], 16, 2, false, b)
	case 'u':
		return 1 + ansiNumber(s[1:], 16, 4, true, b)
	case 'U':
		return 1 + ansiNumber(s[1:], 16, 8, true, b)
	case 'c':
		if len(s) > 1 {
			b.WriteByte(s[1] & 0x1f)
			return 2
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return ansiNumber(s, 8, 3, false, b)
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 1
}

func ansiNumber(s string, base, most int, char bool, b *strings.Builder) int {
	n := 0
	for n < most && n < len(s) {
		if _, err := strconv.ParseUint(s[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	value, err := strconv.ParseUint(s[:n], base, 32)
	switch {
	case err != nil:
	case char && value <= utf8.MaxRune:
		b.WriteRune(rune(value)) //nolint:gosec // bounded by MaxRune just above
	case !char:
		b.WriteByte(byte(value))
	}
	return n
}
