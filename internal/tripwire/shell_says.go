package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// says tells whether what a part of a script writes is, or has for one of its
// commands, what was fetched. A text that a fetched value stands in elsewhere, as
// in TAG=$TAG, is the script's own.
func (r *reader) says(node syntax.Node) bool {
	return r.anywhere(node, func(n syntax.Node) (found, within bool) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			args, _ := r.unwrapped(n.Args)
			if r.isPrint(args) {
				return r.printed(args), false
			}
			return r.isFetch(args) || r.gives(args) || r.feeding && r.givesInput(args), true
		case *syntax.Word:
			return r.leads(n), true
		case *syntax.CmdSubst:
			return false, n == node // leads has looked into the others
		case *syntax.Redirect:
			from := r.literal(n.Word)
			return r.connects(n) || n.Op == syntax.RdrIn && (r.isFetched(from) || r.feeding && isStdin(from)), true
		}
		return false, true
	})
}

// givesInput tells cat, which writes what it reads.
func (r *reader) givesInput(args []*syntax.Word) bool {
	return len(args) > 0 && r.literal(args[0]) == "cat" &&
		!slices.ContainsFunc(args[1:], func(w *syntax.Word) bool { return !isStdin(r.literal(w)) })
}

// tells says that a statement writes its words, whatever it reads.
func (r *reader) tells(st *syntax.Stmt) bool {
	call, ok := st.Cmd.(*syntax.CallExpr)
	return ok && r.isPrint(call.Args)
}

func (r *reader) isPrint(args []*syntax.Word) bool {
	if len(args) == 0 {
		return false
	}
	name := path.Base(r.literal(args[0]))
	return name == "echo" || name == "printf"
}

// printed is says of the words of echo and printf.
func (r *reader) printed(args []*syntax.Word) bool {
	formats := path.Base(r.literal(args[0])) == "printf"
	args = args[1:]
	for len(args) > 0 && strings.HasPrefix(r.literal(args[0]), "-") {
		args = args[1:]
	}
	begins, found := true, false
	for i, arg := range args {
		if found, begins = r.leading(arg.Parts, begins); found {
			return true
		}
		if i == 0 && formats {
			return r.formatted(r.literal(arg), args[1:])
		}
	}
	return false
}

// formatted is says of what printf puts into its format: where each goes where a
// command begins any of them may, and else the first alone.
func (r *reader) formatted(format string, args []*syntax.Word) bool {
	before, verbs, ok := strings.Cut(format, "%")
	if !ok || len(args) == 0 || !beginsCommand(before, true) {
		return false
	}
	for verb := range strings.SplitSeq(verbs, "%") {
		if _, between, _ := strings.Cut(verb, "s"); !beginsCommand(between, true) {
			return r.leads(args[0])
		}
	}
	return slices.ContainsFunc(args, r.leads)
}

// leads tells a word that has what was fetched where a command begins: as a
// script, that is run.
func (r *reader) leads(word *syntax.Word) bool {
	if word == nil {
		return false
	}
	found, _ := r.leading(word.Parts, true)
	return found
}

// leading is leads of parts, where begins says that a command begins before the
// first; after, that one does behind the last.
func (r *reader) leading(parts []syntax.WordPart, begins bool) (found, after bool) {
	for _, part := range parts {
		if !r.spend(1) {
			return false, false
		}
		switch p := part.(type) {
		case *syntax.Lit:
			begins = r.spend(len(p.Value)/bytesEach) && beginsCommand(p.Value, begins)
		case *syntax.SglQuoted:
			begins = r.spend(len(p.Value)/bytesEach) && beginsCommand(p.Value, begins)
		case *syntax.DblQuoted:
			if found, begins = r.leading(p.Parts, begins); found {
				return true, false
			}
		case *syntax.ParamExp:
			if begins && !p.Length && p.Param != nil && r.tainted[p.Param.Value] {
				return true, false
			}
			value, known := r.value(p)
			begins = known && beginsCommand(value, begins)
		case *syntax.CmdSubst:
			if begins && r.says(p) {
				return true, false
			}
			begins = false
		default:
			begins = false
		}
	}
	return false, begins
}

// beginsCommand tells whether a command begins after a text, where begins says
// whether one does before it.
func beginsCommand(text string, begins bool) bool {
	text = strings.TrimRight(text, " \t")
	if text == "" {
		return begins
	}
	return slices.ContainsFunc([]string{"\n", `\n`, ";", "&&", "||"}, func(end string) bool { return strings.HasSuffix(text, end) })
}

// isRun tells whether a script that is given as a word is, or has for one of its
// commands, a download.
func (r *reader) isRun(script *syntax.Word) bool {
	return r.downloads(script) || r.leads(script)
}
