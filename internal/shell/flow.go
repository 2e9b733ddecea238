package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// flow follows downloads through a script: from the program that fetches, through
// pipes, substitutions and variables. It is for a reader that only watches: what is
// decoded, hidden in a program or kept in a file is not followed.
type flow struct {
	// downloads counts the programs that fetch, of what is read now.
	downloads int
	// substituted are the substitutions that are a download.
	substituted map[syntax.Node]bool
	// variables are the names of variables, and whether each begins with a download.
	variables map[string]bool
	// dir is where cd has gone.
	dir string
}

// begins tells a word that begins with a download, or a here-document of which a line
// does: as a script, that is run. One that only has a fetched value in it is the
// script's own.
func (f *flow) begins(word *syntax.Word) bool {
	return word != nil && f.partsBegin(word.Parts)
}

func (f *flow) partsBegin(parts []syntax.WordPart) bool {
	start := true
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			start = strings.HasSuffix(p.Value, "\n")
			continue
		case *syntax.DblQuoted:
			if start && f.partsBegin(p.Parts) {
				return true
			}
		case *syntax.ParamExp:
			if start && !p.Length && p.Param != nil && f.variables[p.Param.Value] {
				return true
			}
		default:
			if start && f.substituted[p] {
				return true
			}
		}
		start = false
	}
	return false
}

// note notes a substitution that is a download.
func (f *flow) note(n syntax.Node) {
	if f.substituted == nil {
		f.substituted = map[syntax.Node]bool{}
	}
	f.substituted[n] = true
}

// set notes what a variable is given.
func (f *flow) set(a *syntax.Assign) {
	if a.Value != nil {
		f.holds(a.Name.Value, f.begins(a.Value))
	}
}

// holds notes whether a variable begins with a download.
func (f *flow) holds(name string, fetched bool) {
	if fetched && f.variables == nil {
		f.variables = map[string]bool{}
	}
	if f.variables != nil {
		f.variables[name] = fetched
	}
}

// goes notes a cd to a place that is known.
func (f *flow) goes(args []Word) {
	if len(args) != 1 {
		return
	}
	to := args[0].known()
	switch {
	case to == "", len(f.dir)+len(to) > maxFileName:
	case f.dir == "", to[0] == '/', to[0] == '~':
		f.dir = to
	default:
		f.dir = path.Join(f.dir, to)
	}
}

// passesOn tells a call whose output has what it reads, or is given, of a download. Of
// what echo and printf are given, a line must begin with it.
func passesOn(c Call) bool {
	args := c.Args[1:]
	switch c.Name() {
	case "echo":
		for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") {
			args = args[1:]
		}
		return len(args) > 0 && args[0].Fetched
	case "printf":
		return len(args) > 0 && (args[0].Fetched || formatBegins(args[0].Text, args[1:]))
	}
	return c.Stdin.Fetched || slices.ContainsFunc(args, func(arg Word) bool { return arg.Fetched })
}

// formatBegins tells a format of printf that puts a download where a line begins.
func formatBegins(format string, args []Word) bool {
	before := ""
	for i, rest := range strings.Split(format, "%s") {
		if i > 0 && i <= len(args) && args[i-1].Fetched && (before == "" || strings.HasSuffix(before, `\n`)) {
			return true
		}
		before += rest
	}
	return false
}

// Saves tells a program that calls what it downloads by the end of its address.
func (c Call) Saves() bool {
	curl := c.Name() == "curl"
	for _, arg := range c.Args[1:] {
		named := strings.HasPrefix(arg.Text, "--remote-name") || cluster(arg.Text, 'O') || strings.HasPrefix(arg.Text, "--output-document")
		if named {
			return curl
		}
	}
	return !curl && strings.HasPrefix(c.Name(), "wget")
}

// cluster tells a letter among options without a value, such as the O of -fsSLO: -XPOST has none.
func cluster(text string, letter byte) bool {
	if len(text) < 2 || text[0] != '-' || text[1] == '-' {
		return false
	}
	at := strings.IndexByte(text, letter)
	return at > 0 && strings.Trim(text[1:at], curlFlags) == ""
}

// known is a word of which all is known, or "".
func (w Word) known() string {
	if !w.Literal {
		return ""
	}
	return w.Text
}
