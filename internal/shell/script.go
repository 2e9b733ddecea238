package shell

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The limits of what is read of a command. What is over one is refused.
const (
	// MaxCommand is the longest command, in bytes.
	MaxCommand = 64 << 10
	// maxNesting is how often a script or a wrapper may hold another.
	maxNesting = 40
	// maxAgain is how often as many bytes of scripts within scripts are read as a command may have.
	maxAgain = 4
	// maxWords is how often as many words are looked at, those of wrapped commands again.
	maxWords = 2
	// bytesEach is how few bytes a command may take: one script may hold no more of them.
	bytesEach = 16
)

// Call is one program or builtin that a script calls.
type Call struct {
	Args []Word
	// Env holds the names that are set for this call only.
	Env   []string
	Stdin Stdin
	// Dir is where the script has gone before it by cd, as far as that is literal.
	Dir string
	// More says that words which are not known are appended, as xargs does.
	More bool
}

// Name is the command word without its folder.
func (c Call) Name() string { return Base(c.Args[0].Text) }

// Texts are the words after the command's, as far as they are known.
func (c Call) Texts() []string {
	texts := make([]string, 0, len(c.Args)-1)
	for _, arg := range c.Args[1:] {
		texts = append(texts, arg.Text)
	}
	return texts
}

// Stdin is what a command reads.
type Stdin struct {
	// piped says that something is there.
	piped bool
	// known says that text is all of it.
	known bool
	Text  string
	// File is the file that it comes from, where it is one and its name is known.
	File string
	// Fetched says that a download is in it.
	Fetched bool
}

// Script is all that a shell command would call and write, as far as that can
// be known without running it.
type Script struct {
	Calls []Call
	// Writes are the targets of redirections.
	Writes []Word
	// Assigned are the variables that are set beyond one call.
	Assigned []string
	// Functions are the names that are declared, by function or alias.
	Functions []string
	// Odd says what cannot be known; each is a refusal.
	Odd []string
	// Moves says that the working directory changes.
	Moves bool
	// RunsFetched says that a shell or an interpreter is given a download to run.
	RunsFetched bool
	// Unread says that not all of it was looked at: it is over a limit.
	Unread bool
}

// ErrEmpty is a command without a command.
var ErrEmpty = errors.New("there is no command in it")

// walker reads the syntax tree of a script, and of the scripts within it, and fills a
// Script. What a program makes of its words is for an invocation to say.
type walker struct {
	*Script
	// most is the longest command, in bytes.
	most                     int
	nesting, reparsed, words int
	// full ends the reading: what is refused is not read any further.
	full bool
	flow
}

// Read parses a command. The error says why it cannot be read.
func Read(text string) (*Script, error) { return ReadUpTo(text, MaxCommand) }

// ReadUpTo is Read for a command of at most so many bytes.
func ReadUpTo(text string, most int) (*Script, error) {
	w := newWalker(most)
	if err := w.parse(text, Stdin{}); err != nil {
		return nil, err
	}
	w.Unread = w.full
	return w.Script, nil
}

// ReadArgv is Read for a command given as a list of words.
func ReadArgv(argv []string) (*Script, error) {
	w := newWalker(MaxCommand)
	words, length := make([]Word, 0, len(argv)), 0
	for _, arg := range argv {
		words = append(words, literalWord(arg))
		length += len(arg)
	}
	if length > MaxCommand || len(argv) > MaxCommand/bytesEach {
		return nil, fmt.Errorf("it is over %d bytes long", MaxCommand)
	}
	if len(words) == 0 || words[0].Text == "" {
		return nil, ErrEmpty
	}
	w.run(Call{Args: words})
	w.Unread = w.full
	return w.Script, nil
}

func newWalker(most int) *walker {
	return &walker{Script: &Script{}, most: most}
}

func (w *walker) parse(text string, in Stdin) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("it holds a NUL byte")
	}
	file, err := parseScript(text, w.most)
	if err != nil {
		return err
	}
	w.stmts(file.Stmts, in)
	return nil
}

// nested reads a script within the script. What cannot be read is refused.
func (w *walker) nested(text, of string, in Stdin) {
	w.nesting++
	defer func() { w.nesting-- }()
	w.reparsed += len(text)
	if w.full || w.nesting > maxNesting || w.reparsed > maxAgain*w.most {
		w.full = true
		w.refuse("scripts within scripts nest too deep to be read")
		return
	}
	if err := w.parse(text, in); err != nil {
		w.refuse("%s is given a script that cannot be read: %v", of, err)
	}
}

// maxOdd is how many reasons are kept: one is enough to refuse.
const maxOdd = 16

func (w *walker) refuse(format string, values ...any) {
	if len(w.Odd) < maxOdd {
		w.Odd = append(w.Odd, fmt.Sprintf(format, values...))
	}
}

// stmts reads statements, and tells whether what they write is a download.
func (w *walker) stmts(list []*syntax.Stmt, in Stdin) (fetched bool) {
	for _, st := range list {
		fetched = w.stmt(st, in) || fetched
	}
	return fetched
}

// stmt reads a statement, and tells whether what it writes is a download.
func (w *walker) stmt(st *syntax.Stmt, in Stdin) (fetched bool) {
	if st == nil {
		return false
	}
	first, before := len(w.Writes), w.downloads
	in = w.redirects(st.Redirs, in)
	last := len(w.Writes)
	given := w.command(st, in)
	fetched = given || w.downloads > before
	for i := first; fetched && i < last; i++ {
		w.Writes[i].Fetched = true
	}
	return fetched
}

// command reads what a statement is, and tells whether it passes a download on.
func (w *walker) command(st *syntax.Stmt, in Stdin) (passes bool) {
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		return w.call(c, in)
	case *syntax.BinaryCmd:
		return w.binary(c, in)
	case *syntax.Subshell:
		dir := w.dir
		passes = w.stmts(c.Stmts, in)
		w.dir = dir
	case *syntax.Block:
		passes = w.stmts(c.Stmts, in)
	case *syntax.WhileClause:
		w.stmts(c.Cond, in)
		passes = w.stmts(c.Do, in)
	case *syntax.TimeClause:
		passes = w.timed(c, in)
	case *syntax.ForClause:
		w.inner(c.Loop, in)
		passes = w.stmts(c.Do, in)
	default:
		w.compound(st, in)
	}
	return passes
}

// timed reads what is timed. Options of the program "time" are none of the shell's own word,
// but a shell that has no such word, as dash, starts the program.
func (w *walker) timed(c *syntax.TimeClause, in Stdin) (passes bool) {
	if c.Stmt == nil {
		return false
	}
	if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && strings.HasPrefix(call.Args[0].Lit(), "-") {
		call.Args = append([]*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: "time"}}}}, call.Args...)
	}
	return w.stmt(c.Stmt, in)
}

// compound reads what branches, and what is run elsewhere or at another time.
func (w *walker) compound(st *syntax.Stmt, in Stdin) {
	switch c := st.Cmd.(type) {
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond, in)
			w.stmts(c.Then, in)
		}
	case *syntax.CaseClause:
		w.branches(c, in)
	case *syntax.FuncDecl:
		if c.Name != nil {
			w.Functions = append(w.Functions, c.Name.Value)
		}
		before := w.downloads
		w.stmt(c.Body, Stdin{piped: true})
		w.downloads = before // it is not called here
	case *syntax.CoprocClause:
		w.stmt(c.Stmt, Stdin{piped: true})
	case *syntax.ArithmCmd, *syntax.LetClause, *syntax.TestClause, *syntax.DeclClause:
		w.inner(c, in)
	default:
		w.refuse("a %T is not understood", c)
	}
}

func (w *walker) binary(c *syntax.BinaryCmd, in Stdin) (passes bool) {
	if c.Op != syntax.Pipe && c.Op != syntax.PipeAll {
		passes = w.stmt(c.X, in)
		return w.stmt(c.Y, in) || passes
	}
	dir, before := w.dir, w.downloads
	fetched := w.stmt(c.X, in)
	w.dir, w.downloads = dir, before // of what it writes the next one says what comes out
	in = printed(c.X)
	in.Fetched = fetched
	return w.stmt(c.Y, in)
}

func (w *walker) branches(c *syntax.CaseClause, in Stdin) {
	w.inner(c.Word, in)
	for _, item := range c.Items {
		for _, pattern := range item.Patterns {
			w.inner(pattern, in)
		}
		w.stmts(item.Stmts, in)
	}
}

// redirects notes what is written and returns what is read.
func (w *walker) redirects(redirs []*syntax.Redirect, in Stdin) Stdin {
	for _, r := range redirs {
		w.within(in, r.Word)
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = Stdin{piped: true}
			if r.Hdoc != nil {
				w.within(in, r.Hdoc)
				in = hereText(r)
				in.Fetched = w.begins(r.Hdoc)
			}
		case syntax.WordHdoc:
			here := unquote(r.Word)
			in = Stdin{piped: true, known: here.Literal, Text: here.Text + "\n", Fetched: w.begins(r.Word)}
		case syntax.RdrIn, syntax.DplIn:
			in = Stdin{piped: true, Fetched: w.begins(r.Word), File: unquote(r.Word).known()}
		default:
			w.target(r)
			if r.Op == syntax.RdrInOut && (r.N == nil || r.N.Value == "0") {
				in = Stdin{piped: true}
			}
		}
	}
	return in
}

// target notes where a redirection writes. A copy of a descriptor and what
// is thrown away are no writes.
func (w *walker) target(r *syntax.Redirect) {
	to := unquote(r.Word)
	if r.Op == syntax.DplOut && to.Literal && strings.Trim(to.Text, "0123456789-") == "" && to.Text != "" {
		return
	}
	if to.Literal && IsDiscard(to.Text) {
		return
	}
	to.Dir = w.dir
	w.Writes = append(w.Writes, to)
}

// IsDiscard tells the devices to which writing changes nothing.
func IsDiscard(path string) bool {
	switch path {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2", "/dev/zero", "/dev/full":
		return true
	}
	return false
}

func (w *walker) call(c *syntax.CallExpr, in Stdin) (passes bool) {
	var env []string
	for _, assign := range c.Assigns {
		w.assign(assign, in)
		if assign.Name != nil {
			env = append(env, assign.Name.Value)
		}
	}
	if len(c.Args) == 0 {
		w.Assigned = append(w.Assigned, env...)
		return false
	}
	args := make([]Word, 0, len(c.Args))
	for _, arg := range c.Args {
		w.within(in, arg)
		word := unquote(arg)
		word.Fetched = w.begins(arg)
		args = append(args, word)
	}
	call := Call{Args: args, Env: env, Stdin: in}
	w.run(call)
	return passesOn(call)
}

// within walks what is called within words; most hold nothing.
func (w *walker) within(in Stdin, list ...*syntax.Word) {
	for _, word := range list {
		if word == nil {
			continue
		}
		for _, part := range word.Parts {
			switch part.(type) {
			case *syntax.Lit, *syntax.SglQuoted:
			default:
				w.inner(part, in)
			}
		}
	}
}

// inner walks what is called within anything that is no statement.
func (w *walker) inner(node syntax.Node, in Stdin) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.substitute(n, n.Stmts, in)
			return false
		case *syntax.ProcSubst:
			if n.Op == syntax.CmdOut {
				in = Stdin{piped: true}
			}
			w.substitute(n, n.Stmts, in)
			return false
		case *syntax.ParamExp:
			w.expansion(n)
		case *syntax.Assign:
			w.declared(n, in)
			return false
		case *syntax.WordIter:
			if n.Name != nil {
				w.Assigned = append(w.Assigned, n.Name.Value)
			}
		case *syntax.BinaryArithm:
			if n.Op >= syntax.Assgn && n.Op <= syntax.ShrAssgn {
				w.counted(n.X)
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				w.counted(n.X)
			}
		}
		return true
	})
}

// substitute reads a substitution, and notes whether it is a download.
func (w *walker) substitute(n syntax.Node, list []*syntax.Stmt, in Stdin) {
	dir, before := w.dir, w.downloads
	if w.stmts(list, in) {
		w.note(n)
	}
	w.dir, w.downloads = dir, before
}

// expansion notes what an expansion does beyond being replaced.
func (w *walker) expansion(p *syntax.ParamExp) {
	if p.Exp == nil {
		return
	}
	switch p.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			w.Assigned = append(w.Assigned, p.Param.Value)
		}
	case syntax.OtherParamOps:
		if op := unquote(p.Exp.Word); op.Text == "P" {
			w.refuse("${…@P} runs what a variable holds")
		}
	}
}

func (w *walker) counted(x syntax.ArithmExpr) {
	if name, ok := x.(*syntax.Word); ok && name.Lit() != "" {
		w.Assigned = append(w.Assigned, name.Lit())
	}
}

// declared notes a variable that declare, export and the like set.
func (w *walker) declared(a *syntax.Assign, in Stdin) {
	w.assign(a, in)
	if a.Name != nil {
		w.Assigned = append(w.Assigned, a.Name.Value)
	} else if value := unquote(a.Value); subscripts(value) {
		w.refuse("a subscript is evaluated as a command")
	}
}

// assign walks the value of an assignment.
func (w *walker) assign(a *syntax.Assign, in Stdin) {
	w.within(in, a.Value)
	if a.Index != nil {
		w.inner(a.Index, in)
	}
	if a.Array != nil {
		w.inner(a.Array, in)
	}
	if a.Name != nil {
		w.set(a)
		w.later(a)
	}
}

// later reads a variable whose text a program runs.
func (w *walker) later(a *syntax.Assign) {
	switch a.Name.Value {
	case "BASH_ENV":
		w.refuse("BASH_ENV names a start-up file of shells")
		return
	case "PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "PROMPT_COMMAND", "SHELL", "LESSOPEN", "LESSCLOSE",
		"PS0", "PS1", "PS2", "PS4", "SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "FCEDIT", "RUSTC_WRAPPER":
	default:
		return
	}
	value := unquote(a.Value)
	if value.Literal && value.Text != "" {
		text := value.Text
		if strings.HasPrefix(a.Name.Value, "PS") {
			text = `: "` + text + `"` // a prompt is expanded, not run
		}
		w.nested(text, a.Name.Value, Stdin{})
	}
}

// subscripts tells the words whose subscript a builtin would evaluate.
func subscripts(w Word) bool {
	return strings.Contains(w.Text, "[") && (strings.Contains(w.Text, "$(") || strings.Contains(w.Text, "`"))
}
