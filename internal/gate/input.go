package gate

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// hereText is the text of a here-document, known where nothing in it expands.
func hereText(r *syntax.Redirect) stdin {
	in := stdin{piped: true, known: true}
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
			unescapeQuoted(lit.Value, &b)
		}
	}
	in.text = b.String()
	if r.Op == syntax.DashHdoc {
		in.text = strings.ReplaceAll("\n"+in.text, "\n\t", "\n")
	}
	return in
}

// printed is the output of a statement, where it is known.
func printed(st *syntax.Stmt) stdin {
	unknown := stdin{piped: true}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return unknown
	}
	words := make([]string, 0, len(call.Args))
	for _, arg := range call.Args {
		w := unquote(arg)
		if !w.literal || w.tilde {
			return unknown
		}
		words = append(words, w.text)
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
	}
	return unknown
}

func here(r *syntax.Redirect) stdin {
	switch {
	case r.Hdoc != nil:
		return hereText(r)
	case r.Op == syntax.WordHdoc:
		text := unquote(r.Word)
		return stdin{piped: true, known: text.literal, text: text.text + "\n"}
	}
	return stdin{piped: true}
}

// echoed is known where all shells agree on it.
func echoed(words []string) stdin {
	if len(words) > 0 && words[0] == "-n" {
		words = words[1:]
	}
	text := strings.Join(words, " ")
	known := !strings.Contains(text, `\`) && !strings.HasPrefix(text, "-")
	return stdin{piped: true, known: known, text: text + "\n"}
}

// formatted reads the plainest formats only.
func formatted(words []string) stdin {
	if len(words) == 0 {
		return stdin{piped: true}
	}
	format := strings.ReplaceAll(words[0], `\n`, "\n")
	if strings.Trim(format, "\n") == "%s" {
		var b strings.Builder
		for _, w := range words[1:] {
			b.WriteString(strings.Replace(format, "%s", w, 1))
		}
		return stdin{piped: true, known: true, text: b.String()}
	}
	known := !strings.ContainsAny(format, `\%`) && len(words) == 1
	return stdin{piped: true, known: known, text: format}
}
