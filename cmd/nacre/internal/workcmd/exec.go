package workcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type execCommand Commands

func (cmd execCommand) command() *cobra.Command {
	var e assembly.Exec
	var group, name, land string
	var wall time.Duration
	var quiet bool
	var sequences string
	away := detaching{Env: cmd.Env, beside: true, quiet: &quiet, started: func(info assembly.SessionInfo) { startedOn(cmd.Env, false, info) }}
	c := &cobra.Command{
		Use: "exec [flags] -- COMMAND [ARGUMENT…]", Short: "run any command sealed",
		Long: `Runs a command in the sandbox that agents get: nothing of your home is there, the
network is closed but for what you name, and ipc is on the PATH. A project folder
is bound at /workspace and can be written. Git works there on a git directory of its own: the commits that were
made come as branches nacre/SESSION, and your HEAD, index and branches stay where they
are unless --land says otherwise. A COMMAND that your PATH finds
outside of the system's folders is bound read-only. Streams pass through, and
of the environment EDITOR, VISUAL, COLORTERM and NO_COLOR. The exit code is the command's,
124 when a limit ended it (time, output, disk), 1 when a full disk does not take all that it
prints, and 125 when nacre fails before it starts.
With --json, what nacre does is told as events, on descriptor 3 where the caller opened
it (3>status), else on stderr. With --detach it reads nothing, and what it prints is kept: nacre logs
shows it; -q then prints the session's name alone.`,
		Example: "  nacre exec --project . -- npm test\n  nacre exec --project . --egress proxy.example.com:443 -- curl https://proxy.example.com/\n  nacre exec --project . --role read-only -- make test",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.status().failed(command.Usage("name a command after --; see nacre exec --help"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			e.Argv, e.Group, e.Session = args, nacre.Group(group), nacre.SessionID(name)
			e.Limits.Wall = wall
			status := cmd.status()
			var unknown, refused error
			e.Land, unknown = cmd.landing(land)
			e.Screen, refused = passing(sequences, terminal.Together(false))
			if err := errors.Join(unknown, refused, checkNames(group, name), checkTime(wall)); err != nil {
				return status.failed(err)
			}
			if away.detach {
				return away.begin(c, args, "")
			}
			return cmd.exec(c.Context(), e, attending{status, quiet, away.detached})
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return cmd.status().failed(command.FlagError(c, err))
	})
	c.Flags().SetInterspersed(false)
	c.Flags().StringVar(&e.Project, "project", "", "folder to work on, bound at /workspace (default: an empty scratch folder)")
	reachFlags(c.Flags(), &e.Egress)
	c.Flags().StringArrayVar(&e.Services, "reach", nil, reachHelp)
	c.Flags().StringArrayVar(&e.Publish, "publish", nil, publishHelp)
	c.Flags().StringVar(&e.Role, "role", "", "role that says where it may write and which programs are there (default: none)")
	c.Flags().StringVar(&land, "land", landBranch, landHelp)
	c.Flags().StringVar(&group, "group", "", "whose memory, tools and policy apply (default main)")
	c.Flags().StringVar(&name, "session", "", "name of the session (default: a new one)")
	c.Flags().DurationVar(&wall, "time", 0, "time limit (default 1h)")
	c.Flags().StringVar(&sequences, "terminal", terminalList, "control sequences that reach your terminal: those of a list, or raw")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing of nacre's own unless it fails")
	away.flags(c.Flags())
	return c
}

const reachHelp = "localhost:PORT, a service of this machine that is there at the same address inside; may be repeated"

const publishHelp = "PORT[:INSIDE] on this machine's loopback that leads inside, or auto; may be repeated"

func (cmd execCommand) exec(ctx context.Context, e assembly.Exec, a attending) error {
	return cmd.sealed(ctx, e, a, func(ctx context.Context, rt *assembly.Runtime, e assembly.Exec) (assembly.ExecResult, error) {
		return rt.Exec(ctx, e)
	})
}

// What --terminal takes.
const (
	terminalList = "list"
	terminalRaw  = "raw"
)

// passing is what --terminal says: which sequences reach a terminal.
func passing(sequences string, list func(io.Reader) io.Reader) (func(io.Reader) io.Reader, error) {
	switch sequences {
	case terminalList:
		return list, nil
	case terminalRaw:
		return nil, nil //nolint:nilnil // nothing is held back
	}
	return nil, command.Usage("--terminal %q: write list or raw", sequences)
}

// running runs something sealed on the streams of e.
type running func(ctx context.Context, rt *assembly.Runtime, e assembly.Exec) (assembly.ExecResult, error)

// sealed runs something sealed on our streams, tells of it, and keeps what was told.
func (cmd execCommand) sealed(ctx context.Context, e assembly.Exec, a attending, run running) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return a.failed(err)
	}
	err = cmd.attended(ctx, rt, e, a, run)
	a.kept.end(cmd.Env, err)
	return err
}

// attending is how a person is told.
type attending struct {
	status
	quiet bool
	// detached says that there are no streams of a person's.
	detached bool
}

func (cmd execCommand) attended(ctx context.Context, rt *assembly.Runtime, e assembly.Exec, a attending, run running) error {
	started := false
	e.Started = func(info assembly.SessionInfo) {
		started = true
		a.kept.open(cmd.Env, rt, info)
		if !a.quiet || a.detached { // who began it waits for that
			a.started(info)
		}
		a.screen.begins()
		if a.detached {
			_ = leave(cmd.Stdout, cmd.Stderr, a.json) // whoever reads them is not needed
		}
	}
	if a.json == nil || a.detached {
		var before io.Writer
		if !a.detached && terminal.Is(cmd.Stderr) {
			before = past{a.screen, cmd.Stderr}
		}
		a.screen.notice = notice(cmd.Env, rt, before)
		defer a.screen.notice.Close()
	}
	e.Asking = a.asking()
	if a.detached {
		e.Asking.Patience = detachedPatience
	}
	e.Notice = func(step nacre.Step) {
		a.kept.write(eventNotice, step)
		if !a.quiet || step.Name == assembly.StepLook { // nobody was told of it yet
			a.notice(step)
		}
	}
	result, err := cmd.runOn(ctx, rt, e, a, run)
	defer a.screen.tell()
	if !started && err != nil {
		return a.failed(err)
	}
	if says(result) {
		a.kept.write(eventExited, result)
	}
	a.executed(result) // however it ended
	retain(ctx, cmd.Env, rt)
	switch {
	case errors.Is(err, context.Canceled) && cmd.Interrupted():
		return command.Exit(command.ExitInterrupted)
	case errors.Is(err, assembly.ErrStopped), errors.Is(err, sandbox.ErrHungUp):
		return command.ExitWith(command.ExitInterrupted, err)
	case err != nil:
		return err
	}
	if result.TimedOut || result.Limit != "" {
		return command.Exit(command.ExitTimeout)
	}
	if result.ExitCode != 0 {
		return command.Exit(result.ExitCode)
	}
	return nil
}

// asking shows questions, and keeps them. Where a person sees them, -q leaves them: it
// still tells that something waits (U-10).
func (a attending) asking() assembly.Asking {
	seen := a.json == nil && terminal.Is(a.env.Stderr)
	return assembly.Asking{
		Watched: seen,
		Ask: func(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error)) {
			a.kept.write(eventQuestion, q)
			if seen || !a.quiet || q.Capability != approval.Egress { // nothing waits for that one, and its client was told
				a.screen.notice.Waits(q.ID)
				a.question(q, answer)
			}
		},
		Settled: func(id string) {
			a.kept.write(eventSettled, map[string]string{"id": id})
			a.screen.notice.Settled(id)
			a.screen.settled(id)
		},
	}
}

// kept is the log of a session that is told on streams of a command's.
type kept struct {
	mu  sync.Mutex
	log *assembly.EventLog // nil before the session is there
}

func (k *kept) open(env *command.Env, rt *assembly.Runtime, info assembly.SessionInfo) {
	log := openLog(env, rt, info.Session)
	_ = log.WriteOwn(eventStarted, info) // the audit has what counts
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = log
}

func (k *kept) write(name string, body any) {
	k.mu.Lock()
	log := k.log
	k.mu.Unlock()
	_ = log.Write(name, body) // the audit has what counts
}

func (k *kept) end(env *command.Env, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	endLog(env, k.log, err)
}

// runOn runs something on our streams, or on none.
func (cmd execCommand) runOn(ctx context.Context, rt *assembly.Runtime, e assembly.Exec, a attending, run running) (assembly.ExecResult, error) {
	if a.detached {
		return cmd.recorded(ctx, rt, e, a.kept, run)
	}
	return cmd.onStreams(ctx, rt, e, a.screen, run)
}

// onStreams hands our streams through. Where they are a terminal, the command gets one of its own,
// so that it cannot type into ours. Where one of them is, what it reads or prints there is passed
// on.
func (cmd execCommand) onStreams(ctx context.Context, rt *assembly.Runtime, e assembly.Exec, screen *screen, run running) (assembly.ExecResult, error) {
	e.Stdin, e.Stdout, e.Stderr, e.Env = cmd.Stdin, cmd.Stdout, cmd.Stderr, preferences(cmd.Getenv)
	if !terminal.Is(cmd.Stdin) || !terminal.Is(cmd.Stdout) {
		input, end, err := sandbox.Feed(cmd.Stdin)
		if err != nil {
			return assembly.ExecResult{}, err
		}
		defer end()
		e.Stdin = input
		return run(ctx, rt, e)
	}
	master, slave, err := sandbox.OpenPty()
	if err != nil {
		return assembly.ExecResult{}, err
	}
	e.Stdin, e.Stdout, e.Stderr = slave, slave, slave
	e.Env = append(e.Env, "TERM="+cmp.Or(cmd.Getenv("TERM"), "dumb"))
	var relayed chan error
	face := screen.on(cmd.Env, master)
	told := make(chan struct{}) // closed when nacre's first lines are on the terminal
	tell, once := e.Started, sync.OnceFunc(func() { close(told) })
	e.Started = func(info assembly.SessionInfo) {
		tell(info)
		once()
	}
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	e.Relay = func(count func(io.Reader) io.Reader) {
		relayed = make(chan error, 1)
		go func() {
			err := sandbox.Relay(cmd.Stdin, master, face, func(printed io.Reader) io.Reader { return after{told, count(printed)} })
			if errors.Is(err, sandbox.ErrHungUp) { // the kernel tells a job in the background nothing of it
				hangUp(err)
			}
			relayed <- err
		}()
	}
	end := sync.OnceValue(func() error { // gives the terminal back
		once()               // where nothing was started
		err := slave.Close() // the relay ends when nobody holds the other end
		face.Over()
		if relayed != nil {
			err = errors.Join(err, <-relayed)
		}
		return err
	})
	e.Land.Ask = behind(e.Land.Ask, func() error { defer screen.tell(); return end() })
	result, err := run(ctx, rt, e)
	return result, errors.Join(err, end(), master.Close())
}

// after reads nothing before told is closed: what a program draws at once would have
// nacre's first lines written over it (U-10).
type after struct {
	told <-chan struct{}
	io.Reader
}

func (a after) Read(p []byte) (int, error) {
	<-a.told
	return a.Reader.Read(p)
}

// status tells what nacre does beside a command's own output: lines on stderr
// for people, events on descriptor 3 for scripts (M-06).
type status struct {
	env    *command.Env
	json   *os.File
	screen *screen
	kept   *kept
}

// statusDescriptor is where --json status goes when the caller opened it.
const statusDescriptor = 3

func (cmd execCommand) status() status {
	if !cmd.JSON {
		return status{env: cmd.Env, screen: &screen{}, kept: &kept{}}
	}
	if !inherited(statusDescriptor) {
		return status{env: cmd.Env, json: cmd.Stderr, screen: &screen{}, kept: &kept{}}
	}
	unix.CloseOnExec(statusDescriptor)
	return status{env: cmd.Env, json: os.NewFile(statusDescriptor, "status"), screen: &screen{}, kept: &kept{}}
}

// inherited tells a descriptor that the caller opened from one that this process opened meanwhile,
// as the runtime of Go does for files of its own. Those are closed on exec, and what came over one
// is not.
func inherited(descriptor uintptr) bool {
	flags, err := unix.FcntlInt(descriptor, unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// failed tells that nothing was started, and why.
func (s status) failed(err error) error {
	if s.json != nil {
		s.event("failed", map[string]any{"exit_code": command.ExitExecFailed, "error": err.Error()})
	}
	return command.ExitWith(command.ExitExecFailed, err)
}

func (s status) event(name string, body any) {
	_ = terminal.JSON(s.json, map[string]any{"event": name, "data": body}) // the reader may be gone
}

// printer writes while the command runs, when a terminal of ours is in raw mode.
func (s status) printer() *terminal.Printer {
	style := s.env.Style(s.env.Stderr)
	style.Raw = terminal.Is(s.env.Stdin) && terminal.Is(s.env.Stdout)
	return terminal.New(s.screen.unheld(s.env.Stderr), style)
}

func (s status) started(info assembly.SessionInfo) {
	if s.json != nil {
		s.event("started", info)
		return
	}
	if s.screen.agent {
		s.opened(info)
		return
	}
	p := s.printer()
	p.Field("nacre", "session %s · %s", info.Session, info.Sandbox)
	if info.Role != "" {
		p.Line("         role       %s: of it, what the operating system holds", info.Role)
	}
	files := terminal.List(info.WritableFiles(), "nothing")
	if info.Project == "" {
		files = "no files of yours (--project . brings this folder in)"
	}
	p.Line("         may write  %s    may reach  %s", files, terminal.List(info.Egress, "nothing"))
	if len(info.Services) > 0 {
		p.Line("         services   %s", terminal.List(info.Services, "none"))
	}
	for _, link := range info.Published {
		p.Line("         port       %s", link)
	}
	if len(info.Inside) > 0 {
		p.Line("         may read   %s", strings.Join(info.Inside, ", "))
	}
	p.NotHeld(info.NotEnforced)
	for _, limit := range info.Widened {
		p.Prose("         not held  ", limit)
	}
}

func (s status) question(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error)) {
	if s.json != nil {
		s.event("question", q)
		return
	}
	if s.screen.ask(q, answer) {
		s.screen.later(func() { s.printer().Asked(q, s.screen.outcome(q.ID)) })
		return
	}
	s.printer().Question(q, time.Now())
}

func (s status) notice(step nacre.Step) {
	if s.json != nil {
		s.event("notice", step)
		return
	}
	s.screen.later(func() { showNotice(s.printer(), step) })
}

func showNotice(p *terminal.Printer, step nacre.Step) {
	switch {
	case step.Name == assembly.StepLook: // whole, where other steps are cut
		p.Mark("warn", "look", step.Text)
	case step.Name == assembly.StepGit: // with what to do about it
		p.Mark("denied", "git", step.Text)
	case step.Name == assembly.StepPort && !step.IsError:
		p.Field("port", "%s", step.Text)
	default:
		p.Step(step)
	}
}

func (s status) executed(result assembly.ExecResult) {
	if s.json != nil {
		s.event("exited", result)
		return
	}
	s.screen.tell()
	showExit(s.env.Printer(s.env.Stderr), result)
}

// says tells whether there is more to say of how a command ended than its exit code.
func says(r assembly.ExecResult) bool {
	return r.TimedOut || r.Limit != "" || r.Memory != "" || len(r.Git.Lines()) > 0 || len(r.Planted.Lines()) > 0
}

// exitNotFound is with what shells and env end that did not find a program.
const exitNotFound = 127

func showExit(p *terminal.Printer, result assembly.ExecResult) {
	if result.TimedOut {
		p.Field("nacre", "the time limit ended the command")
	}
	if result.Limit != "" {
		p.Field("nacre", "a limit ended the command: %s", result.Limit)
	}
	if result.Memory != "" {
		p.Field("nacre", "%s", result.Memory)
	}
	if result.ExitCode == exitNotFound {
		p.Field("nacre", "exit %d says that a program was not found: of your home, only the command and the project are inside", exitNotFound)
	}
	for _, line := range result.Git.Lines() {
		p.Field("git", "%s", line)
	}
	for _, line := range result.Planted.Lines() {
		p.Mark("warn", "look", line)
	}
}
