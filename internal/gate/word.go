package gate

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command as the shell would hand it on, as far as that
// can be known without running anything.
type word struct {
	// text is the word unquoted; expansions are left out of it.
	text string
	// literal says that text is the whole word, whatever the shell's state.
	literal bool
	// quoted says that an expansion in it cannot become several words.
	quoted bool
	// tilde says that an unquoted ~ leads it: a path in somebody's home.
	tilde bool
	// findsGit says that it holds the place of git, as in $(which git).
	findsGit bool
}

// literalWord is a word of which everything is known.
func literalWord(text string) word { return word{text: text, literal: true, quoted: true} }

// unquote reads a word of the syntax tree.
func unquote(w *syntax.Word) word {
	out := word{literal: true, quoted: true}
	if w == nil {
		return out
	}
	if len(w.Parts) == 1 { // what most words are: plain
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[{~") {
			out.text = lit.Value
			return out
		}
	}
	var b strings.Builder
	for i, part := range w.Parts {
		out.part(part, &b, i == 0)
	}
	out.text = b.String()
	if expands(w) {
		out.literal = false
	}
	return out
}

func (w *word) part(part syntax.WordPart, b *strings.Builder, first bool) {
	switch part := part.(type) {
	case *syntax.Lit:
		w.tilde = w.tilde || first && strings.HasPrefix(part.Value, "~")
		unescape(part.Value, b)
	case *syntax.SglQuoted:
		if part.Dollar {
			b.WriteString(ansiC(part.Value))
		} else {
			b.WriteString(part.Value)
		}
	case *syntax.DblQuoted:
		// $"…" is looked up in a catalogue, which may say anything.
		w.literal = w.literal && !part.Dollar
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

func (w *word) expansion(part syntax.WordPart) {
	w.literal = false
	if subst, ok := part.(*syntax.CmdSubst); ok && looksUpGit(subst) {
		w.findsGit = true
	}
}

// looksUpGit tells $(which git) and its like.
func looksUpGit(subst *syntax.CmdSubst) bool {
	if len(subst.Stmts) != 1 {
		return false
	}
	call, ok := subst.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	switch unquote(call.Args[0]).text {
	case "which", "command", "type", "whence", "whereis", "readlink", "realpath", "hash", "where":
	default:
		return false
	}
	for _, arg := range call.Args[1:] {
		if isGit(unquote(arg).text) {
			return true
		}
	}
	return false
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

// unescape removes the backslashes of unquoted text.
func unescape(s string, b *strings.Builder) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
}

// unescapeQuoted removes the backslashes that mean something in double quotes.
func unescapeQuoted(s string, b *strings.Builder) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\n':
				i++
				continue
			case '$', '`', '"', '\\':
				i++
			}
		}
		b.WriteByte(s[i])
	}
}

// ansiC reads the escapes of $'…'.
func ansiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		i += ansiEscape(s[i:], &b) - 1
	}
	// the shell's strings end at NUL
	text, _, _ := strings.Cut(b.String(), "\x00")
	return text
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
