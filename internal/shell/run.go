package shell

import (
	"slices"
	"strings"
)

// Base is a command word without its folder and without .exe.
func Base(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	return strings.TrimSuffix(name, ".exe")
}

// invocation is one call, whose words it reads for what the program calls in turn.
type invocation struct {
	Call
	*walker
	// name is the program's, without its folder.
	name string
}

// run notes a call, and what it calls in turn.
func (w *walker) run(c Call) {
	if w.words += len(c.Args); w.full || w.words > maxWords*w.most || len(w.Calls) >= w.most/bytesEach || w.nesting > maxNesting {
		w.full = true
		w.refuse("it holds too many commands to be read")
		return
	}
	command := c.Args[0]
	c.Dir = w.dir
	if !command.Literal {
		w.RunsFetched = w.RunsFetched || command.Fetched
		w.refuse("the command word %s is not literal: write the program's name", command.Shown())
		return
	}
	if command.Text == "" {
		w.refuse("a command word is empty")
		return
	}
	if strings.HasPrefix(command.Text, "=") {
		w.refuse("the command word %q is looked up by some shells: write the program's name", command.Text)
		return
	}
	w.Calls = append(w.Calls, c)
	w.nesting++
	defer func() { w.nesting-- }()
	name := c.Name()
	if IsDownloader(name) {
		w.downloads++
	}
	i := invocation{Call: c, walker: w, name: name}
	switch {
	case IsShell(name), isTimed(name):
		i.shell()
	case i.builtin():
	case i.flagged():
	default:
		i.interpreter()
		if spec, ok := wrapperOf(name); ok {
			i.wraps(spec)
		}
	}
}

// Shown is a word for a reason: what is known of it.
func (w Word) Shown() string {
	if w.Text == "" {
		return "(an expansion)"
	}
	const most = 40
	text := strings.ToValidUTF8(w.Text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return `"` + text + `…"`
}

// isTimed tells what gives a shell its input at another time.
func isTimed(name string) bool { return name == "at" || name == "batch" }

// shell reads the script that a shell is given: by -c, on its standard input
// or in a file, of which nothing is known.
func (c *invocation) shell() {
	name := c.name
	if isTimed(name) {
		c.input()
		return
	}
	command, fromInput := false, false
	if HasFlag(c.Args[1:], "-n") {
		c.Stdin.Fetched = false // it is read, and not run
	}
	args := c.Args[1:]
	for len(args) > 0 {
		arg := args[0]
		if !arg.Literal {
			c.RunsFetched = c.RunsFetched || arg.Fetched
			c.refuse("%s is given %s, which is not literal", name, arg.Shown())
			return
		}
		if arg.Text == "--" || arg.Text == "-" {
			args = args[1:]
			break
		}
		if len(arg.Text) < 2 || arg.Text[0] != '-' && arg.Text[0] != '+' {
			break
		}
		switch text := arg.Text; {
		case text == "--command" || strings.EqualFold(text, "-command"):
			command = true
		case strings.HasPrefix(text, "--command="):
			c.nested(strings.TrimPrefix(text, "--command="), name, Stdin{})
			return
		case strings.HasPrefix(strings.ToLower(text), "-enc"):
			c.refuse("%s is given an encoded script", name)
			return
		case text == "--rcfile", strings.HasPrefix(text, "--init"), text == "--execute", text == "--commands":
			c.refuse("%s is given a start-up file", name)
			return
		case !strings.HasPrefix(text, "--"):
			command = command || text[0] == '-' && strings.Contains(text, "c")
			fromInput = fromInput || text[0] == '-' && strings.Contains(text, "s")
			if name == "fish" && strings.Contains(text, "C") || (name == "nu" || name == "xonsh") && strings.Contains(text, "e") {
				c.refuse("%s is given a start-up script", name)
				return
			}
			values := strings.Count(text, "o") + strings.Count(text, "O")
			args = args[min(values, len(args)-1):]
		}
		args = args[1:]
	}
	switch {
	case command:
		c.script(args)
	case len(args) == 0 || fromInput:
		c.input()
	default:
		c.file(args[0])
	}
}

// script reads what a shell is given with -c.
func (c *invocation) script(args []Word) {
	switch {
	case len(args) == 0:
		c.RunsFetched = c.RunsFetched || c.More && c.Stdin.Fetched
		c.refuse("%s -c without its script", c.name)
	case !args[0].Literal:
		c.RunsFetched = c.RunsFetched || args[0].Fetched
		c.refuse("the script given to %s is not literal", c.name)
	default:
		c.nested(args[0].Text, c.name, c.Stdin)
	}
}

// input reads what a shell runs of its standard input.
func (c *invocation) input() {
	c.RunsFetched = c.RunsFetched || c.Stdin.Fetched
	if c.More || !c.Stdin.piped || !c.Stdin.known {
		c.refuse("%s runs what it reads, and that is not known: write the commands themselves", c.name)
		return
	}
	c.nested(c.Stdin.Text, c.name, Stdin{})
}

// file is a script in a file: the operating system holds what it does.
func (c *invocation) file(file Word) {
	switch {
	case !file.Literal:
		c.RunsFetched = c.RunsFetched || file.Fetched
		c.refuse("the script of %s is not a literal file name", c.name)
	case IsInput(file.Text):
		c.input()
	case c.More:
		c.refuse("%s is given words that are not known", c.name)
	}
}

// IsInput tells the names of standard input and other open descriptors.
func IsInput(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/")
}

// interpreter refuses code that an interpreter reads and nobody knows.
func (c *invocation) interpreter() {
	if !IsInterpreter(c.name) {
		return
	}
	for i, arg := range c.Args[1:] {
		c.RunsFetched = c.RunsFetched || arg.Fetched
		if !strings.HasPrefix(arg.Text, "-") || arg.Text == "-" {
			if arg.Text == "-" || IsInput(arg.Text) {
				break
			}
			return // a file
		}
		if strings.ContainsAny(strings.TrimLeft(arg.Text, "-"), "ceErmpnVvh") && !slices.Contains([]string{"-i", "-u", "-B", "-s"}, arg.Text) {
			c.RunsFetched = c.RunsFetched || i+2 < len(c.Args) && c.Args[i+2].Fetched
			return // code among the words, or a question
		}
	}
	c.RunsFetched = c.RunsFetched || c.Stdin.Fetched
	if c.Stdin.piped && !c.Stdin.known {
		c.refuse("%s runs what it reads, and that is not known: give it a file", c.name)
	}
}

// builtin reads what the shell's own commands run.
func (c *invocation) builtin() bool {
	args := c.Args[1:]
	switch name := c.name; name {
	case "eval":
		c.joined(args)
	case "source", ".":
		if len(args) > 0 {
			c.file(args[0])
		}
	case "trap":
		for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && len(args[0].Text) > 1 {
			args = args[1:]
		}
		if len(args) > 1 {
			c.joined(args[:1])
		}
	case "alias":
		c.aliases(args)
	case "hash", "enable":
		if len(args) > 0 && (strings.HasPrefix(args[0].Text, "-p") || strings.HasPrefix(args[0].Text, "-f")) {
			c.refuse("%s %s changes what a name runs", name, args[0].Text)
		}
	case "mapfile", "readarray", "complete", "compgen":
		for i, arg := range args {
			if arg.Text == "-C" && i+1 < len(args) {
				c.joined(args[i+1 : i+2])
			} else if strings.HasPrefix(arg.Text, "-C") && len(arg.Text) > 2 {
				c.nested(arg.Text[2:], name, Stdin{})
			}
		}
	case "bind":
		for _, arg := range args {
			if _, command, ok := strings.Cut(arg.Text, ":"); ok {
				c.nested(strings.Trim(command, ` "'`), name, Stdin{})
			}
		}
	case "cd", "pushd", "popd", "chdir":
		c.Moves = true
		c.goes(args)
	case "read":
		for _, arg := range args {
			c.holds(arg.Text, c.Stdin.Fetched)
		}
		c.subscripted(args)
	case "test", "[", "unset", "printf", "declare", "typeset", "local", "export", "readonly", "let":
		c.subscripted(args)
	default:
		return false
	}
	return true
}

// joined reads words as one script.
func (c *invocation) joined(args []Word) {
	texts := make([]string, 0, len(args))
	for _, arg := range args {
		if !arg.Literal {
			c.RunsFetched = c.RunsFetched || arg.Fetched
			c.refuse("the script given to %s is not literal", c.name)
			return
		}
		texts = append(texts, arg.Text)
	}
	if c.More {
		c.refuse("%s is given words that are not known", c.name)
	}
	c.nested(strings.Join(texts, " "), c.name, c.Stdin)
}

func (c *invocation) aliases(args []Word) {
	for _, arg := range args {
		name, value, given := strings.Cut(arg.Text, "=")
		switch {
		case !arg.Literal:
			c.refuse("an alias that is not literal")
		case given:
			c.Functions = append(c.Functions, name)
			c.nested(value, c.name, Stdin{})
		}
	}
}

// subscripted refuses words whose array subscript the builtin would evaluate.
func (c *invocation) subscripted(args []Word) {
	for i, arg := range args {
		named := c.name != "test" && c.name != "[" && c.name != "printf" || i > 0 && args[i-1].Text == "-v"
		if named && subscripts(arg) {
			c.refuse("%s would evaluate the subscript of a word", c.name)
		}
	}
}
