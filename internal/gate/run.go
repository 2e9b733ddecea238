package gate

import (
	"strings"
)

// base is a command word without its folder and without .exe.
func base(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	return strings.TrimSuffix(name, ".exe")
}

// run notes a call, and what it calls in turn.
func (w *walker) run(c invocation) {
	if w.words += len(c.args); w.full || w.words > maxWords || len(w.calls) >= maxCalls || w.nesting > maxNesting {
		w.full = true
		w.refuse("it holds too many commands to be read")
		return
	}
	command := c.args[0]
	if !command.literal {
		w.refuse("the command word %s is not literal: write the program's name", shown(command))
		return
	}
	if command.text == "" {
		w.refuse("a command word is empty")
		return
	}
	if strings.HasPrefix(command.text, "=") {
		w.refuse("the command word %q is looked up by some shells: write the program's name", command.text)
		return
	}
	w.calls = append(w.calls, c)
	w.nesting++
	defer func() { w.nesting-- }()
	name := c.name()
	switch {
	case isShell(name):
		w.shell(c)
	case w.builtin(name, c):
	case w.flagged(name, c):
	case w.interpreter(name, c):
	default:
		if spec, ok := wrapperOf(name); ok {
			w.wrapped(name, spec, c)
		}
	}
}

// shown is a word for a reason: what is known of it.
func shown(w word) string {
	if w.text == "" {
		return "(an expansion)"
	}
	const most = 40
	text := strings.ToValidUTF8(w.text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return `"` + text + `…"`
}

func isShell(name string) bool {
	switch strings.ToLower(strings.TrimPrefix(name, "-")) {
	case "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "lksh", "pdksh", "oksh", "ash", "hush", "fish", "rbash", "rzsh", "posh", "yash",
		"csh", "tcsh", "pwsh", "powershell", "nu", "elvish", "xonsh", "osh", "ysh", "rc", "es", "ion", "at", "batch":
		return true
	}
	return false
}

// shell reads the script that a shell is given: by -c, on its standard input
// or in a file, of which nothing is known.
func (w *walker) shell(c invocation) {
	name := c.name()
	if name == "at" || name == "batch" {
		w.shellInput(c)
		return
	}
	command, fromInput := false, false
	args := c.args[1:]
	for len(args) > 0 {
		arg := args[0]
		if !arg.literal {
			w.refuse("%s is given %s, which is not literal", name, shown(arg))
			return
		}
		if arg.text == "--" || arg.text == "-" {
			args = args[1:]
			break
		}
		if len(arg.text) < 2 || arg.text[0] != '-' && arg.text[0] != '+' {
			break
		}
		switch text := arg.text; {
		case text == "--command" || strings.EqualFold(text, "-command"):
			command = true
		case strings.HasPrefix(text, "--command="):
			w.nested(strings.TrimPrefix(text, "--command="), name, stdin{})
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

func (w *walker) shellScript(c invocation, args []word) {
	switch {
	case len(args) == 0:
		w.refuse("%s -c without its script", c.name())
	case !args[0].literal:
		w.refuse("the script given to %s is not literal", c.name())
	default:
		w.nested(args[0].text, c.name(), c.stdin)
	}
}

func (w *walker) shellInput(c invocation) {
	if c.more || !c.stdin.piped || !c.stdin.known {
		w.refuse("%s runs what it reads, and that is not known: write the commands themselves", c.name())
		return
	}
	w.nested(c.stdin.text, c.name(), stdin{})
}

// shellFile is a script in a file: the operating system holds what it does.
func (w *walker) shellFile(c invocation, file word) {
	switch {
	case !file.literal:
		w.refuse("the script of %s is not a literal file name", c.name())
	case isInput(file.text):
		w.shellInput(c)
	case c.more:
		w.refuse("%s is given words that are not known", c.name())
	}
}

// isInput tells the names of standard input and other open descriptors.
func isInput(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/")
}

// interpreter refuses code that an interpreter reads and nobody knows.
func (w *walker) interpreter(name string, c invocation) bool {
	switch strings.TrimRight(name, "0123456789.") {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "bun", "php", "lua", "luajit", "tclsh", "osascript", "Rscript", "julia", "irb", "ghci", "raku", "racket", "guile":
	default:
		return false
	}
	for _, arg := range c.args[1:] {
		if !strings.HasPrefix(arg.text, "-") || arg.text == "-" {
			if arg.text == "-" || isInput(arg.text) {
				break
			}
			return true // a file
		}
		if strings.ContainsAny(strings.TrimLeft(arg.text, "-"), "ceErmpnVvh") && !oneOf(arg.text, []string{"-i", "-u", "-B", "-s"}) {
			return true // code among the words, or a question
		}
	}
	if c.stdin.piped && !c.stdin.known {
		w.refuse("%s runs what it reads, and that is not known: give it a file", name)
	}
	return true
}

// builtin reads what the shell's own commands run.
func (w *walker) builtin(name string, c invocation) bool {
	args := c.args[1:]
	switch name {
	case "eval":
		w.joined(c, args)
	case "source", ".":
		if len(args) > 0 {
			w.shellFile(c, args[0])
		}
	case "trap":
		for len(args) > 0 && strings.HasPrefix(args[0].text, "-") && len(args[0].text) > 1 {
			args = args[1:]
		}
		if len(args) > 1 {
			w.joined(c, args[:1])
		}
	case "alias":
		w.aliases(c, args)
	case "hash", "enable":
		if len(args) > 0 && (strings.HasPrefix(args[0].text, "-p") || strings.HasPrefix(args[0].text, "-f")) {
			w.refuse("%s %s changes what a name runs", name, args[0].text)
		}
	case "mapfile", "readarray", "complete", "compgen":
		for i, arg := range args {
			if arg.text == "-C" && i+1 < len(args) {
				w.joined(c, args[i+1:i+2])
			} else if strings.HasPrefix(arg.text, "-C") && len(arg.text) > 2 {
				w.nested(arg.text[2:], name, stdin{})
			}
		}
	case "bind":
		for _, arg := range args {
			if _, command, ok := strings.Cut(arg.text, ":"); ok {
				w.nested(strings.Trim(command, ` "'`), name, stdin{})
			}
		}
	case "cd", "pushd", "popd", "chdir":
		w.moves = true
	case "test", "[", "unset", "read", "printf", "declare", "typeset", "local", "export", "readonly", "let":
		w.subscripted(name, args)
	default:
		return false
	}
	return true
}

// joined reads words as one script.
func (w *walker) joined(c invocation, args []word) {
	texts := make([]string, 0, len(args))
	for _, arg := range args {
		if !arg.literal {
			w.refuse("the script given to %s is not literal", c.name())
			return
		}
		texts = append(texts, arg.text)
	}
	if c.more {
		w.refuse("%s is given words that are not known", c.name())
	}
	w.nested(strings.Join(texts, " "), c.name(), c.stdin)
}

func (w *walker) aliases(c invocation, args []word) {
	for _, arg := range args {
		name, value, given := strings.Cut(arg.text, "=")
		switch {
		case !arg.literal:
			w.refuse("an alias that is not literal")
		case given:
			w.functions = append(w.functions, name)
			w.nested(value, c.name(), stdin{})
		}
	}
}

// subscripted refuses words whose array subscript the builtin would evaluate.
func (w *walker) subscripted(name string, args []word) {
	for i, arg := range args {
		named := name != "test" && name != "[" && name != "printf" || i > 0 && args[i-1].text == "-v"
		if named && subscripts(arg) {
			w.refuse("%s would evaluate the subscript of a word", name)
		}
	}
}
