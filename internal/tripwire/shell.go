package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The limits of what is read of a command.
const (
	// maxCommand is the longest command, in bytes.
	maxCommand = 256 << 10
	// maxOpeners bounds how deep the parser can be made to nest.
	maxOpeners = 4096
	// maxNesting is how often a script may hold another.
	maxNesting = 8
	// maxNested is how many scripts within a script are read.
	maxNested = 256
	// maxWrites is how many places that a command writes are kept.
	maxWrites = 1024
)

// Where relative paths begin, and what ~ stands for, in every sandbox.
const (
	workDir = "/workspace"
	homeDir = "/home/agent"
)

// command is what can be read of a shell command without running it.
type command struct {
	// runs says that it gives a download to a shell to run.
	runs bool
	// writes are the paths that it writes, as far as they are literal.
	writes []string
	// unread says that it is too long or too deep to be read.
	unread bool
}

// reader reads one command.
type reader struct {
	command
	dir             string
	nesting, nested int
	// fetched are the files that downloads were saved as.
	fetched map[string]bool
}

// readCommand reads a command of bash. One that no shell can parse is none.
func readCommand(text string) command {
	r := &reader{dir: workDir, fetched: map[string]bool{}}
	r.script(text, false)
	return r.command
}

// script reads a script; fed says that its input is a download.
func (r *reader) script(text string, fed bool) {
	openers := 0
	for i := range len(text) {
		if strings.IndexByte("({[`", text[i]) >= 0 {
			openers++
		}
	}
	r.nested++
	if len(text) > maxCommand || openers > maxOpeners || r.nesting >= maxNesting || r.nested > maxNested {
		r.unread = true
		return
	}
	file := parse(text)
	if file == nil {
		return
	}
	r.nesting++
	r.stmts(file.Stmts, fed)
	r.nesting--
}

// parse gives nil where the parser gives up: bytes from outside must not end us.
func parse(text string) (file *syntax.File) {
	defer func() {
		if recover() != nil {
			file = nil
		}
	}()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil
	}
	return file
}

func (r *reader) stmts(list []*syntax.Stmt, fed bool) {
	for _, st := range list {
		r.stmt(st, fed)
	}
}

// stmt walks one statement in the order in which it runs.
func (r *reader) stmt(st *syntax.Stmt, fed bool) {
	if st == nil {
		return
	}
	fed = r.redirects(st, fed)
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		r.call(c, fed)
	case *syntax.BinaryCmd:
		r.stmt(c.X, fed)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			fed = downloads(c.X)
		}
		r.stmt(c.Y, fed)
	default:
		r.compound(c, fed)
	}
}

// compound walks the statements that another holds.
func (r *reader) compound(node syntax.Node, fed bool) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if st, ok := n.(*syntax.Stmt); ok {
			r.stmt(st, fed)
			return false
		}
		return true
	})
}

// redirects notes what is written, and tells whether the input is a download.
func (r *reader) redirects(st *syntax.Stmt, fed bool) bool {
	for _, redirect := range st.Redirs {
		switch redirect.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
			to := literal(redirect.Word)
			r.write(to)
			if to != "" && downloads(st) {
				r.fetched[r.place(to)] = true
			}
		case syntax.RdrIn, syntax.WordHdoc:
			fed = downloads(redirect.Word) || r.fetched[r.place(literal(redirect.Word))]
		}
		r.within(redirect.Word)
		r.within(redirect.Hdoc)
	}
	return fed
}

// within walks the scripts that a word holds.
func (r *reader) within(word *syntax.Word) {
	if word == nil {
		return
	}
	for _, part := range word.Parts {
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		default:
			r.compound(part, false)
		}
	}
}

// wrappers run the command that follows them.
func isWrapper(name string) bool {
	switch name {
	case "sudo", "doas", "env", "nohup", "time", "timeout", "exec", "command", "builtin", "nice", "ionice", "stdbuf", "setsid", "unbuffer", "xargs", "chronic", "busybox":
		return true
	}
	return false
}

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "pwsh":
		return true
	}
	return false
}

// isInterpreter tells the programs that run what they read where they are given nothing else.
func isInterpreter(name string) bool {
	return strings.HasPrefix(name, "python") || slices.Contains([]string{"perl", "ruby", "node", "nodejs", "php", "lua", "bun"}, name)
}

func isDownloader(name string) bool {
	switch name {
	case "curl", "wget", "wget2", "aria2c", "axel", "http", "https", "xh", "fetch", "lynx", "w3m", "nc", "ncat", "netcat", "socat", "ftp", "tftp":
		return true
	}
	return false
}

func (r *reader) call(c *syntax.CallExpr, fed bool) {
	for _, assign := range c.Assigns {
		r.within(assign.Value)
	}
	for _, arg := range c.Args {
		r.within(arg)
	}
	args := unwrapped(c.Args)
	if len(args) == 0 {
		return
	}
	name, rest := path.Base(literal(args[0])), args[1:]
	switch {
	case isShell(name):
		r.shell(rest, fed)
	case isInterpreter(name):
		r.interpreter(rest, fed)
	case name == "eval":
		r.runs = r.runs || slices.ContainsFunc(rest, func(w *syntax.Word) bool { return downloads(w) })
		r.script(texts(rest), fed)
	case name == "source" || name == ".":
		r.runs = r.runs || len(rest) > 0 && (downloads(rest[0]) || fed && isStdin(literal(rest[0])))
		r.sourced(rest)
	case name == "cd" && len(rest) == 1:
		if to := literal(rest[0]); to != "" {
			r.dir = r.place(to)
		}
	case strings.Contains(literal(args[0]), "/") && r.fetched[r.place(literal(args[0]))]:
		r.runs = true // it was downloaded, and is run by its name
	default:
		r.written(name, rest)
	}
}

// sourced notes a download that is read as a script by its name.
func (r *reader) sourced(args []*syntax.Word) {
	if len(args) > 0 && r.fetched[r.place(literal(args[0]))] {
		r.runs = true
	}
}

// shell reads the words after sh.
func (r *reader) shell(args []*syntax.Word, fed bool) {
	for i := 0; i < len(args); i++ {
		text := literal(args[i])
		short := len(text) > 1 && text[0] == '-' && text[1] != '-'
		switch {
		case downloads(args[i]):
			r.runs = true // sh <(curl …)
			return
		case isStdin(text), short && strings.Contains(text, "s"):
			r.runs = r.runs || fed
			return
		case short && strings.Contains(text, "n"):
			return // it is read, and not run
		case short && strings.Contains(text, "c"):
			if i+1 < len(args) {
				r.runs = r.runs || downloads(args[i+1])
				r.script(literal(args[i+1]), fed)
			}
			return
		case short && strings.HasSuffix(text, "o"), text == "+o", text == "--rcfile", text == "--init-file":
			i++ // its value
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, "+"):
		default:
			r.sourced(args[i:])
			return
		}
	}
	r.runs = r.runs || fed
}

// interpreter reads the words after python and its like: without a script of
// its own it runs what it reads.
func (r *reader) interpreter(args []*syntax.Word, fed bool) {
	for i, arg := range args {
		text := literal(arg)
		switch {
		case isStdin(text):
			r.runs = r.runs || fed
			return
		case len(text) > 1 && text[0] == '-' && strings.ContainsAny(strings.TrimLeft(text, "-"), "cemnpr"):
			r.runs = r.runs || i+1 < len(args) && downloads(args[i+1])
			return
		case strings.HasPrefix(text, "-"):
		default:
			r.runs = r.runs || downloads(arg)
			return
		}
	}
	r.runs = r.runs || fed
}

func isStdin(text string) bool { return text == "-" || text == "/dev/stdin" || text == "/dev/fd/0" }

// unwrapped leaves out what only runs what follows: sudo, env A=b, timeout 5.
func unwrapped(args []*syntax.Word) []*syntax.Word {
	wrapped := false
	for len(args) > 0 {
		text := literal(args[0])
		switch {
		case isWrapper(path.Base(text)):
			wrapped = true
		case wrapped && (text == "" || text[0] == '-' || strings.Contains(text, "=") || strings.Trim(text, "0123456789.smhd") == ""):
		default:
			return args
		}
		args = args[1:]
	}
	return args
}

// downloads tells whether anything in a part of a script fetches from the network.
func downloads(node syntax.Node) bool {
	if node == nil || node == (*syntax.Word)(nil) || node == (*syntax.Stmt)(nil) {
		return false
	}
	found := false
	syntax.Walk(node, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && !found {
			args := unwrapped(call.Args)
			found = len(args) > 0 && isDownloader(path.Base(literal(args[0])))
		}
		return !found
	})
	return found
}

// written notes what a program is known to write.
func (r *reader) written(name string, args []*syntax.Word) {
	var operands []string
	output := ""
	for i, arg := range args {
		text := literal(arg)
		long, value, joined := strings.Cut(text, "=")
		switch {
		case isOutput(name, text) && i+1 < len(args):
			output = literal(args[i+1])
		case joined && isOutput(name, long):
			output = value
		case strings.HasPrefix(text, "of=") && name == "dd":
			output = value
		case !strings.HasPrefix(text, "-"):
			operands = append(operands, text)
		}
	}
	if output != "" {
		r.write(output)
		if isDownloader(name) {
			r.fetched[r.place(output)] = true
		}
	}
	switch name {
	case "tee", "touch", "rm", "unlink", "truncate", "shred", "ed", "ex":
		for _, to := range operands {
			r.write(to)
		}
	case "sed", "perl":
		if slices.ContainsFunc(args, func(w *syntax.Word) bool { return strings.HasPrefix(literal(w), "-i") }) {
			for _, to := range operands {
				r.write(to)
			}
		}
	case "cp", "mv", "ln", "install", "rsync", "scp":
		if len(operands) > 1 {
			r.write(operands[len(operands)-1] + "/.") // what is copied into a folder is in it
		}
	}
}

// isOutput tells the options that name what a program writes.
func isOutput(name, option string) bool {
	switch name {
	case "curl":
		return option == "-o" || option == "--output" || len(option) > 2 && option[0] == '-' && option[1] != '-' && strings.HasSuffix(option, "o")
	case "wget", "wget2":
		return option == "-O" || option == "--output-document" || len(option) > 2 && option[0] == '-' && option[1] != '-' && strings.HasSuffix(option, "O")
	case "cp", "mv", "ln", "install":
		return option == "-t" || option == "--target-directory"
	case "ssh-keygen":
		return option == "-f"
	case "sort":
		return option == "-o"
	}
	return false
}

func (r *reader) write(to string) {
	if to != "" && len(r.writes) < maxWrites {
		r.writes = append(r.writes, r.place(to))
	}
}

// place is a path from the root on.
func (r *reader) place(name string) string { return absolute(r.dir, name) }

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
func texts(words []*syntax.Word) string {
	list := make([]string, 0, len(words))
	for _, w := range words {
		list = append(list, literal(w))
	}
	return strings.Join(list, " ")
}

// literal is a word's text where that is known before it runs, and "" where it
// is not. The home is known.
func literal(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var b strings.Builder
	for _, part := range word.Parts {
		if !literalPart(&b, part, false) {
			return ""
		}
	}
	return b.String()
}

func literalPart(b *strings.Builder, part syntax.WordPart, quoted bool) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		b.WriteString(unquoted(p.Value, quoted))
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			if !literalPart(b, inner, true) {
				return false
			}
		}
	case *syntax.ParamExp:
		if p.Param == nil || p.Param.Value != "HOME" || p.Exp != nil || p.Length || p.Index != nil {
			return false
		}
		b.WriteString(homeDir)
	default:
		return false
	}
	return true
}

// unquoted takes the backslashes out that a shell would.
func unquoted(text string, quoted bool) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("\"\\$`\n", text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
