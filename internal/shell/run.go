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
	switch {
	case IsShell(name), isTimed(name):
		w.shell(c)
	case w.builtin(name, c):
	case w.flagged(name, c):
	default:
		w.interpreter(name, c)
		if spec, ok := wrapperOf(name); ok {
			w.wrapped(name, spec, c)
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
func (w *walker) shell(c Call) {
	name := c.Name()
	if isTimed(name) {
		w.shellInput(c)
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
			w.RunsFetched = w.RunsFetched || arg.Fetched
			w.refuse("%s is given %s, which is not literal", name, arg.Shown())
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
			w.nested(strings.TrimPrefix(text, "--command="), name, Stdin{})
			return
		case strings.HasPrefix(strings.ToLower(text), "-enc"):
			w.refuse("%s is given an encoded script", name)
			return
		case text == "--rcfile", strings.HasPrefix(text, "--init"), text == "--execute", text == "--commands":
			w.refuse("%s is given a start-up file", name)
			return
		case !strings.HasPrefix(text, "--"):
			command = command || text[0] == '-' && strings.Contains(text, "c")
			fromInput = fromInput || text[0] == '-' && strings.Contains(text, "s")
			if name == "fish" && strings.Contains(text, "C") || (name == "nu" || name == "xonsh") && strings.Contains(text, "e") {
				w.refuse("%s is given a start-up script", name)
				return
			}
			values := strings.Count(text, "o") + strings.Count(text, "O")
			args = args[min(values, len(args)-1):]
		}
		args = args[1:]
	}
	switch {
	case command:
		w.shellScript(c, args)
	case len(args) == 0 || fromInput:
		w.shellInput(c)
	default:
		w.shellFile(c, args[0])
	}
}

func (w *walker) shellScript(c Call, args []Word) {
	switch {
	case len(args) == 0:
		w.RunsFetched = w.RunsFetched || c.More && c.Stdin.Fetched
		w.refuse("%s -c without its script", c.Name())
	case !args[0].Literal:
		w.RunsFetched = w.RunsFetched || args[0].Fetched
		w.refuse("the script given to %s is not literal", c.Name())
	default:
		w.nested(args[0].Text, c.Name(), c.Stdin)
	}
}

func (w *walker) shellInput(c Call) {
	w.RunsFetched = w.RunsFetched || c.Stdin.Fetched
	if c.More || !c.Stdin.piped || !c.Stdin.known {
		w.refuse("%s runs what it reads, and that is not known: write the commands themselves", c.Name())
		return
	}
	w.nested(c.Stdin.Text, c.Name(), Stdin{})
}

// shellFile is a script in a file: the operating system holds what it does.
func (w *walker) shellFile(c Call, file Word) {
	switch {
	case !file.Literal:
		w.RunsFetched = w.RunsFetched || file.Fetched
		w.refuse("the script of %s is not a literal file name", c.Name())
	case IsInput(file.Text):
		w.shellInput(c)
	case c.More:
		w.refuse("%s is given words that are not known", c.Name())
	}
}

// IsInput tells the names of standard input and other open descriptors.
func IsInput(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/")
}

// interpreter refuses code that an interpreter reads and nobody knows.
func (w *walker) interpreter(name string, c Call) {
	if !IsInterpreter(name) {
		return
	}
	for i, arg := range c.Args[1:] {
		w.RunsFetched = w.RunsFetched || arg.Fetched
		if !strings.HasPrefix(arg.Text, "-") || arg.Text == "-" {
			if arg.Text == "-" || IsInput(arg.Text) {
				break
			}
			return // a file
		}
		if strings.ContainsAny(strings.TrimLeft(arg.Text, "-"), "ceErmpnVvh") && !slices.Contains([]string{"-i", "-u", "-B", "-s"}, arg.Text) {
			w.RunsFetched = w.RunsFetched || i+2 < len(c.Args) && c.Args[i+2].Fetched
			return // code among the words, or a question
		}
	}
	w.RunsFetched = w.RunsFetched || c.Stdin.Fetched
	if c.Stdin.piped && !c.Stdin.known {
		w.refuse("%s runs what it reads, and that is not known: give it a file", name)
	}
}

// builtin reads what the shell's own commands run.
func (w *walker) builtin(name string, c Call) bool {
	args := c.Args[1:]
	switch name {
	case "eval":
		w.joined(c, args)
	case "source", ".":
		if len(args) > 0 {
			w.shellFile(c, args[0])
		}
	case "trap":
		for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && len(args[0].Text) > 1 {
			args = args[1:]
		}
		if len(args) > 1 {
			w.joined(c, args[:1])
		}
	case "alias":
		w.aliases(c, args)
	case "hash", "enable":
		if len(args) > 0 && (strings.HasPrefix(args[0].Text, "-p") || strings.HasPrefix(args[0].Text, "-f")) {
			w.refuse("%s %s changes what a name runs", name, args[0].Text)
		}
	case "mapfile", "readarray", "complete", "compgen":
		for i, arg := range args {
			if arg.Text == "-C" && i+1 < len(args) {
				w.joined(c, args[i+1:i+2])
			} else if strings.HasPrefix(arg.Text, "-C") && len(arg.Text) > 2 {
				w.nested(arg.Text[2:], name, Stdin{})
			}
		}
	case "bind":
		for _, arg := range args {
			if _, command, ok := strings.Cut(arg.Text, ":"); ok {
				w.nested(strings.Trim(command, ` "'`), name, Stdin{})
			}
		}
	case "cd", "pushd", "popd", "chdir":
		w.Moves = true
		w.goes(args)
	case "read":
		for _, arg := range args {
			w.holds(arg.Text, c.Stdin.Fetched)
		}
		w.subscripted(name, args)
	case "test", "[", "unset", "printf", "declare", "typeset", "local", "export", "readonly", "let":
		w.subscripted(name, args)
	default:
		return false
	}
	return true
}

// joined reads words as one script.
func (w *walker) joined(c Call, args []Word) {
	texts := make([]string, 0, len(args))
	for _, arg := range args {
		if !arg.Literal {
			w.RunsFetched = w.RunsFetched || arg.Fetched
			w.refuse("the script given to %s is not literal", c.Name())
			return
		}
		texts = append(texts, arg.Text)
	}
	if c.More {
		w.refuse("%s is given words that are not known", c.Name())
	}
	w.nested(strings.Join(texts, " "), c.Name(), c.Stdin)
}

func (w *walker) aliases(c Call, args []Word) {
	for _, arg := range args {
		name, value, given := strings.Cut(arg.Text, "=")
		switch {
		case !arg.Literal:
			w.refuse("an alias that is not literal")
		case given:
			w.Functions = append(w.Functions, name)
			w.nested(value, c.Name(), Stdin{})
		}
	}
}

// subscripted refuses words whose array subscript the builtin would evaluate.
func (w *walker) subscripted(name string, args []Word) {
	for i, arg := range args {
		named := name != "test" && name != "[" && name != "printf" || i > 0 && args[i-1].Text == "-v"
		if named && subscripts(arg) {
			w.refuse("%s would evaluate the subscript of a word", name)
		}
	}
}
