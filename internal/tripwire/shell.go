package tripwire

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nacre-dev/nacre/internal/shell"
)

// The limits of what is read of a command.
const (
	// maxCommand is the longest command, in bytes.
	maxCommand = 256 << 10
	// maxNesting is how often a script may hold another.
	maxNesting = 8
	// maxNested is how many scripts within a script are read.
	maxNested = 256
	// maxWrites is how many places that a command writes are kept.
	maxWrites = 1024
	// maxWalked is how much of a command is looked at, of the same part again and
	// again: parts, and the bytes of what they come to.
	maxWalked = 4 << 20
	// bytesEach is how many bytes that the command itself has count as one part.
	bytesEach = 16
)

// unknown stands for a descriptor that only running tells, such as ${COPROC[0]}.
const unknown = ""

// filledName is the variable that stands for xargs' {}.
const filledName = "xargs_word"

// scratch is what mktemp's files are called here, each by where it is in the script.
const scratch = "/tmp/\x00"

// Where relative paths begin, and what ~ stands for, in every sandbox.
const (
	workDir = "/workspace"
	homeDir = "/home/agent"
)

// command is what can be read of a shell command without running it.
type command struct {
	// runs says that it gives a download to a shell to run.
	runs bool
	// writes are the paths of configuration that it writes, as far as they are literal.
	writes []string
	// unread says that it is too long or too deep to be read.
	unread bool
	// joins says that it puts words of a download into a script.
	joins bool
}

// reader reads one command.
type reader struct {
	command
	dir             string
	nesting, nested int
	// fetched are the files that downloads were saved as.
	fetched map[string]bool
	// values are variables whose text is known, and tainted those that hold a download.
	values  map[string]string
	tainted map[string]bool
	// functions are what the command defines, and opened the descriptors that are connections.
	functions map[string]function
	opened    map[string]bool
	// walked counts what was looked at.
	walked int
	// feeding says that what is read reads a download: there, cat gives it on.
	feeding bool
}

// function is what a command defines, and whether it downloads.
type function struct {
	body    *syntax.Stmt
	fetches bool
}

// stdin is what a statement reads: a download, one with words around it, which a
// shell would run as well, or a text that is known.
type stdin struct {
	fed, holds bool
	text       string
}

// readCommand reads a command of bash. One that no shell can parse is none. It
// adds to fetched what the command downloads, but for files without a known name.
func readCommand(text string, fetched map[string]bool) command {
	r := newReader(fetched)
	r.script(text, stdin{})
	maps.DeleteFunc(fetched, func(name string, _ bool) bool { return strings.HasPrefix(name, scratch) })
	return r.command
}

func newReader(fetched map[string]bool) *reader {
	return &reader{
		dir: workDir, fetched: fetched, values: map[string]string{}, tainted: map[string]bool{},
		functions: map[string]function{}, opened: map[string]bool{},
	}
}

// spend counts what is looked at, and says whether there is enough left for it.
// Beyond that nothing more is known of the command.
func (r *reader) spend(n int) bool {
	if r.walked > maxWalked {
		return false
	}
	r.walked += n
	if r.walked > maxWalked {
		r.unread = true
		return false
	}
	return true
}

// script reads a script that has in for its input.
func (r *reader) script(text string, in stdin) {
	if !r.deeper() {
		r.unread = true
		return
	}
	file, err := shell.Parse(text, maxCommand)
	if err != nil {
		r.unread = r.unread || errors.Is(err, shell.ErrLimit)
		return // what no shell can parse runs nothing
	}
	if !r.spend(len(text)) {
		return
	}
	r.nesting++
	r.stmts(file.Stmts, in)
	r.nesting--
}

// deeper counts what is read within what, and says whether that is few enough.
func (r *reader) deeper() bool {
	r.nested++
	return r.nesting < maxNesting && r.nested <= maxNested
}

func (r *reader) stmts(list []*syntax.Stmt, in stdin) {
	for _, st := range list {
		r.stmt(st, in)
	}
}

// stmt walks one statement in the order in which it runs.
func (r *reader) stmt(st *syntax.Stmt, in stdin) {
	if st == nil || !r.spend(1) {
		return
	}
	in = r.redirects(st, in)
	was := r.feeding
	r.feeding = in.fed
	defer func() { r.feeding = was }()
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		r.call(c, in)
	case *syntax.BinaryCmd:
		r.stmt(c.X, in)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			in = stdin{r.says(c.X), r.downloads(c.X), r.prints(c.X)}
		}
		r.stmt(c.Y, in)
	case *syntax.DeclClause:
		for _, a := range c.Args {
			r.assign(a)
		}
	case *syntax.FuncDecl:
		if c.Name != nil {
			r.functions[c.Name.Value] = function{c.Body, r.says(c.Body)}
		}
		r.compound(c, in)
	case *syntax.CoprocClause:
		r.opened[unknown] = r.opened[unknown] || r.downloads(c.Stmt)
		r.compound(c, in)
	case *syntax.ForClause:
		r.each(c.Loop)
		r.compound(c, in)
	default:
		r.compound(c, in)
	}
}

// each notes what a loop's variable is: a download, where one of its words is.
func (r *reader) each(loop syntax.Loop) {
	words, ok := loop.(*syntax.WordIter)
	if !ok || words.Name == nil {
		return
	}
	delete(r.values, words.Name.Value)
	for _, item := range words.Items {
		if text := r.literal(item); r.isFetched(text) || text != "" && len(text) <= maxPath && sensitive(r.place(text)) != "" {
			r.values[words.Name.Value] = text
		}
	}
}

// compound walks the statements that another holds.
func (r *reader) compound(node syntax.Node, in stdin) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if st, ok := n.(*syntax.Stmt); ok {
			r.stmt(st, in)
			return false
		}
		return r.spend(1)
	})
}

// redirects notes what is written, and tells what the input is.
func (r *reader) redirects(st *syntax.Stmt, in stdin) stdin {
	for _, redirect := range st.Redirs {
		name := r.literal(redirect.Word)
		switch redirect.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut, syntax.DplOut:
			if isNetwork(name) {
				in = stdin{fed: true} // whoever is there answers
				r.opened[descriptor(redirect)] = true
				break
			}
			r.write(name)
			if in.fed && !r.tells(st) || r.says(st) || r.wouldRun(r.prints(st)) {
				r.fetch(name)
			}
		case syntax.RdrIn:
			in = stdin{fed: isNetwork(name) || r.isFetched(name) || r.says(redirect.Word)}
			r.open(redirect, in.fed)
		case syntax.DplIn:
			in.fed = in.fed || r.opened[name]
			r.open(redirect, r.opened[name])
		case syntax.WordHdoc:
			in = stdin{r.leads(redirect.Word), r.downloads(redirect.Word), name}
		case syntax.Hdoc, syntax.DashHdoc:
			in = stdin{r.leads(redirect.Hdoc), r.downloads(redirect.Hdoc), r.document(redirect)}
		}
		r.within(redirect.Word, stdin{fed: in.fed || r.says(st)})
		r.within(redirect.Hdoc, stdin{})
	}
	return in
}

// open notes a descriptor of a number that is a connection, or has a download.
func (r *reader) open(redirect *syntax.Redirect, fed bool) {
	if fed && redirect.N != nil {
		r.opened[redirect.N.Value] = true
	}
}

// descriptor is the number before a redirection, 0 where there is none.
func descriptor(redirect *syntax.Redirect) string {
	if redirect.N == nil {
		return "0"
	}
	return redirect.N.Value
}

// within walks the scripts that a word holds. Those of >(sh) read what is written there.
func (r *reader) within(word *syntax.Word, written stdin) {
	if word == nil {
		return
	}
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.ProcSubst:
			if p.Op != syntax.CmdOut {
				written = stdin{}
			}
			r.stmts(p.Stmts, written)
		default:
			r.compound(part, stdin{})
		}
	}
}

func (r *reader) call(c *syntax.CallExpr, in stdin) {
	for _, assign := range c.Assigns {
		r.assign(assign)
	}
	for _, arg := range c.Args {
		r.within(arg, in)
	}
	r.shellOption(c.Args, in)
	args, by := r.unwrapped(c.Args)
	if len(args) == 0 {
		if r.startsShell(by, c.Args) {
			r.fed(in)
		}
		return
	}
	word := r.literal(args[0])
	name, rest := path.Base(word), args[1:]
	switch {
	case shell.MayBeShell(name):
		r.shell(name, rest, in, by == "xargs")
	case shell.IsInterpreter(name):
		r.interpreter(name, rest, in)
		r.written(name, rest, in.fed)
	case by == "xargs" && in.fed && strings.Trim(word, "{}%@_") == "" && word != "":
		r.runs = true // each line is a command
	case strings.Contains(word, "/") && r.isFetched(word), word == "" && len(c.Args) > 0 && r.leads(args[0]):
		r.runs = true // it was downloaded, and is run by its name
	case r.functions[name].body != nil && in.fed && r.deeper():
		r.nesting++
		r.stmt(r.functions[name].body, in)
		r.nesting--
	case !r.builtin(name, rest, in):
		r.program(name, rest, in)
	}
}

// builtin reads the words after a command of the shell's own.
func (r *reader) builtin(name string, args []*syntax.Word, in stdin) bool {
	switch name {
	case "eval":
		r.runs = r.runs || slices.ContainsFunc(args, r.isRun)
		r.script(r.texts(args), in)
	case "trap":
		r.runs = r.runs || len(args) > 0 && r.isRun(args[0])
		if len(args) > 0 {
			r.script(r.literal(args[0]), stdin{})
		}
	case "source", ".":
		r.runs = r.runs || len(args) > 0 && (r.downloads(args[0]) || in.fed && isStdin(r.literal(args[0]))) || len(args) == 0 && in.fed
		r.sourced(args)
		if len(args) > 0 {
			r.script(r.handed(args[0]), stdin{})
		}
	case "read", "mapfile", "readarray":
		for _, arg := range args {
			r.tainted[r.literal(arg)] = in.fed
		}
		r.tainted["REPLY"], r.tainted["MAPFILE"] = in.fed, in.fed
	case "cd", "pushd":
		if len(args) == 1 {
			r.enter(r.literal(args[0]))
		}
	default:
		return false
	}
	return true
}

// enter notes where relative paths begin. A place that no path reaches is none.
func (r *reader) enter(dir string) {
	if dir == "" {
		return
	}
	to := r.place(dir)
	if len(to) > maxPath {
		r.unread = true
		return
	}
	if to != "" {
		r.dir = to
	}
}

// program reads the words after any other command.
func (r *reader) program(name string, args []*syntax.Word, in stdin) {
	r.runs = r.runs || r.handsOver(name, args)
	switch name {
	case "at", "batch":
		r.fed(in)
	case "crontab":
		r.runs = r.runs || len(args) > 0 && (in.fed && isStdin(r.literal(args[len(args)-1])) || r.isFetched(r.literal(args[0])) || r.downloads(args[0]))
	case "parallel":
		r.runs = r.runs || in.fed && !slices.ContainsFunc(args, func(w *syntax.Word) bool { return !strings.HasPrefix(r.literal(w), "-") })
	}
	if name == "ssh" {
		r.remote(args, in)
	}
	for i := 0; i < len(args); i++ {
		text, next := r.literal(args[i]), ""
		if i+1 < len(args) {
			next = r.literal(args[i+1])
		}
		if runsWords(name) && (!matchesText(name) || runsText(name, text)) {
			r.mentions(text)
		}
		if strings.HasSuffix(name, "awk") {
			r.runs = r.runs || in.fed && runsLines(name, "", text)
			r.programWrites(name, text)
		}
		if script := scriptOf(name, text, next); script != "" {
			r.script(script, stdin{})
		}
		switch option := len(text) > 1 && text[0] == '-' && text[1] != '-'; {
		case (text == "-c" || text == "--call") && runsOption(name), text == "-C" && name == "complete":
			r.mentions(next)
		case option && strings.HasSuffix(text, "c") && (name == "su" || name == "runuser" || name == "script"):
			r.script(next, in)
		case text == "-f" && i+1 < len(args) && (name == "make" || name == "at" || name == "batch" || strings.HasSuffix(name, "awk")):
			r.runs = r.runs || in.fed && isStdin(next) || r.downloads(args[i+1]) || r.isFetched(next)
		case shell.MayBeShell(path.Base(text)) && shell.IsContainer(name):
			r.shell(path.Base(text), args[i+1:], in, name == "parallel")
			i = len(args)
		case shell.MayBeShell(path.Base(text)) && strings.HasPrefix(next, "-") && strings.Contains(next, "c"):
			r.shell(path.Base(text), args[i+1:], stdin{}, false) // find -exec sh -c, docker run … sh -c
		}
	}
	r.written(name, args, in.fed)
}

// shellOption reads the script after the -c of what runs a shell, and what su
// without one gives to the shell that it is.
func (r *reader) shellOption(args []*syntax.Word, in stdin) {
	if len(args) == 0 {
		return
	}
	name, given := path.Base(r.literal(args[0])), false
	if !slices.Contains([]string{"su", "runuser", "sg", "flock"}, name) {
		return
	}
	for i, arg := range args[1:] {
		if text := r.literal(arg); (text == "-c" || text == "--command") && i+2 < len(args) {
			given = true
			r.script(r.literal(args[i+2]), in)
		}
	}
	switch {
	case name == "sg" && len(args) == 3:
		r.script(r.literal(args[2]), in)
	case name == "su" && !given:
		r.fed(in)
	}
}

// sourced notes a download that is read as a script by its name.
func (r *reader) sourced(args []*syntax.Word) {
	if len(args) > 0 && r.isFetched(r.literal(args[0])) {
		r.runs = true
	}
}
