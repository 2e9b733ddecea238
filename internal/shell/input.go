package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// hereText is the text of a here-document, known where nothing in it expands.
func hereText(r *syntax.Redirect) Stdin {
	in := Stdin{piped: true, known: true}
	delimiter := r.Word.Lit()
	raw := delimiter == "" || strings.ContainsRune(delimiter, '\\')
	var b strings.Builder
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			in.known = false
		case raw:
			b.WriteString(lit.Value)
		default:
			unescapeHere(lit.Value, &b)
		}
	}
	in.Text = b.String()
	if r.Op == syntax.DashHdoc {
		in.Text = strings.ReplaceAll("\n"+in.Text, "\n\t", "\n")
	}
	return in
}

// printed is the output of a statement, where it is known.
func printed(st *syntax.Stmt) Stdin {
	unknown := Stdin{piped: true}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return unknown
	}
	words := make([]string, 0, len(call.Args))
	for _, arg := range call.Args {
		w := unquote(arg)
		if !w.Literal || w.Tilde {
			return unknown
		}
		words = append(words, w.Text)
	}
	switch words[0] {
	case "echo":
		return echoed(words[1:])
	case "printf":
		return formatted(words[1:])
	case "cat":
		if len(words) == 1 && len(st.Redirs) == 1 {
			return here(st.Redirs[0])
		}
		if len(words) == 2 {
			return Stdin{piped: true, File: words[1]}
		}
	}
	return unknown
}

func here(r *syntax.Redirect) Stdin {
	switch {
	case r.Hdoc != nil:
		return hereText(r)
	case r.Op == syntax.WordHdoc:
		text := unquote(r.Word)
		return Stdin{piped: true, known: text.Literal, Text: text.Text + "\n"}
	}
	return Stdin{piped: true}
}

// echoed is known where all shells agree on it.
func echoed(words []string) Stdin {
	if len(words) > 0 && words[0] == "-n" {
		words = words[1:]
	}
	text := strings.Join(words, " ")
	known := !strings.Contains(text, `\`) && !strings.HasPrefix(text, "-")
	return Stdin{piped: true, known: known, Text: text + "\n"}
}

// formatted reads the plainest formats only.
func formatted(words []string) Stdin {
	if len(words) == 0 {
		return Stdin{piped: true}
	}
	format := strings.ReplaceAll(words[0], `\n`, "\n")
	if strings.Trim(format, "\n") == "%s" {
		var b strings.Builder
		for _, w := range words[1:] {
			b.WriteString(strings.Replace(format, "%s", w, 1))
		}
		return Stdin{piped: true, known: true, Text: b.String()}
	}
	known := !strings.ContainsAny(format, `\%`) && len(words) == 1
	return Stdin{piped: true, known: known, Text: format}
}
