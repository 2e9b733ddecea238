package tripwire

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nacre-dev/nacre/internal/shell"
)

// place is a path from the root on.
func (r *reader) place(name string) string {
	if !r.spend(len(r.dir) + len(name)) {
		return ""
	}
	return absolute(r.dir, name)
}

func absolute(dir, name string) string {
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = homeDir + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = dir + "/" + name
	}
	into := strings.HasSuffix(name, "/.") || strings.HasSuffix(name, "/")
	name = path.Clean(name)
	if into {
		name += "/"
	}
	return name
}

// texts are words put together, as eval does.
func (r *reader) texts(words []*syntax.Word) string {
	list := make([]string, 0, len(words))
	for _, w := range words {
		list = append(list, r.literal(w))
	}
	return strings.Join(list, " ")
}

// literal is a word's text where that is known before it runs, and "" where it
// is not. The home and the shell are known, what the command itself has set,
// and where a program lies.
func (r *reader) literal(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var b strings.Builder
	for _, part := range word.Parts {
		if !r.literalPart(&b, part, false) {
			return ""
		}
	}
	return b.String()
}

func (r *reader) literalPart(b *strings.Builder, part syntax.WordPart, quoted bool) bool {
	if !r.spend(1) {
		return false
	}
	switch p := part.(type) {
	case *syntax.Lit:
		if quoted {
			shell.UnescapeQuoted(p.Value, b)
		} else {
			shell.Unescape(p.Value, b)
		}
		return r.spend(len(p.Value) / bytesEach)
	case *syntax.SglQuoted:
		if p.Dollar {
			b.WriteString(shell.ANSI(p.Value))
		} else {
			b.WriteString(p.Value)
		}
		return r.spend(len(p.Value) / bytesEach)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			if !r.literalPart(b, inner, true) {
				return false
			}
		}
	case *syntax.ParamExp:
		value, known := r.value(p)
		b.WriteString(value)
		return known
	case *syntax.CmdSubst:
		text := r.substituted(p)
		if text == "" || !r.spend(len(text)) {
			return false // what is made of a text may be longer, and be made into more
		}
		b.WriteString(text)
	default:
		return false
	}
	return true
}

// value is what a parameter stands for.
func (r *reader) value(p *syntax.ParamExp) (value string, known bool) {
	switch {
	case p.Param == nil || p.Length || p.Index != nil:
		return "", false
	case p.Param.Value == "SHELL" || p.Param.Value == "BASH" || p.Param.Value == "0":
		return "/bin/sh", true // whatever else follows it in ${SHELL:-sh}
	case p.Exp != nil:
		return "", false
	case p.Param.Value == "HOME":
		return homeDir, true
	case p.Param.Value == "IFS" && r.values["IFS"] == "":
		return " ", true
	case p.Param.Value == "PWD":
		return r.dir, r.spend(len(r.dir))
	}
	value, known = r.values[p.Param.Value]
	if !r.spend(len(value)) {
		return "", false // a value may be made of others, twice as long each time
	}
	return value, known
}

// substituted is what $(…) stands for where that is known.
func (r *reader) substituted(c *syntax.CmdSubst) string {
	if program := r.located(c); program != "" {
		return program
	}
	if len(c.Stmts) != 1 {
		return ""
	}
	if call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		switch name := r.literal(call.Args[0]); {
		case name == "pwd" && len(call.Args) == 1:
			return r.dir
		case name == "mktemp":
			return scratch + strconv.FormatUint(uint64(c.Left.Offset()), 10)
		}
	}
	return strings.TrimRight(r.prints(c.Stmts[0]), "\n")
}

// located is the program of $(which sh) and $(command -v sh).
func (r *reader) located(c *syntax.CmdSubst) string {
	if len(c.Stmts) != 1 {
		return ""
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 {
		return ""
	}
	if name := r.literal(call.Args[0]); name != "which" && name != "command" && name != "type" {
		return ""
	}
	return r.literal(call.Args[len(call.Args)-1])
}
