package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/display"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

func (a *app) execCommand() *cobra.Command {
	var e assembly.Exec
	var group, name string
	var wall time.Duration
	var quiet bool
	c := &cobra.Command{
		Use: "exec [flags] -- COMMAND [ARGUMENT…]", Short: "run any command sealed",
		Long: `Runs a command in the sandbox that agents get: nothing of your home is there, the
network is closed but for what you name, and ipc is on the PATH. A project folder
is bound at /workspace and can be written, its .git cannot. Streams pass through;
the exit code is the command's, 124 when a limit ended it (time, output, disk), and
125 when nacre fails before it starts. With --json, what nacre does is told as events,
on descriptor 3 where the caller opened it (3>status), else on stderr.`,
		Example: "  nacre exec --project . -- npm test\n  nacre exec --project . --egress proxy.example.com:443 -- curl https://proxy.example.com/\n  nacre exec --project . --role read-only -- make test",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.status().failed(usage("name a command after --; see nacre exec --help"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			e.Argv, e.Group, e.Session = args, nacre.Group(group), nacre.SessionID(name)
			e.Limits.Wall = wall
			status := a.status()
			if err := errors.Join(checkNames(group, name), checkTime(wall)); err != nil {
				return status.failed(err)
			}
			return a.exec(c.Context(), e, status, quiet)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return a.status().failed(usage("%w; see nacre exec --help", err))
	})
	c.Flags().SetInterspersed(false)
	c.Flags().StringVar(&e.Project, "project", "", "folder to work on, bound at /workspace (default: an empty scratch folder)")
	c.Flags().StringArrayVar(&e.Egress, "egress", nil, "HOST:PORT that may be reached; may be repeated")
	c.Flags().StringVar(&e.Role, "role", "", "role that says where it may write and which programs are there (default: none)")
	c.Flags().StringVar(&group, "group", "", "whose memory, tools and policy apply (default main)")
	c.Flags().StringVar(&name, "session", "", "name of the session (default: a new one)")
	c.Flags().DurationVar(&wall, "time", 0, "time limit (default 1h)")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing of nacre's own unless it fails")
	return c
}

// checkNames refuses a group or session that could not be one.
func checkNames(group, session string) error {
	if group != "" {
		if _, err := nacre.ParseGroup(group); err != nil {
			return &usageError{err}
		}
	}
	if session != "" {
		if _, err := nacre.ParseSessionID(session); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

func checkTime(wall time.Duration) error {
	if wall < 0 {
		return usage("--time %s: write how long it may take, such as 30m", wall)
	}
	return nil
}

func (a *app) exec(ctx context.Context, e assembly.Exec, status status, quiet bool) error {
	rt, err := a.open(ctx)
	if err != nil {
		return status.failed(err)
	}
	started := false
	e.Started = func(info assembly.SessionInfo) {
		started = true
		if !quiet {
			status.started(info)
		}
	}
	e.Asking.Ask = func(q nacre.Question, _ func(nacre.Ruling) error) {
		if !quiet || q.Capability != approval.Egress { // nothing waits for that one, and its client was told
			status.question(q)
		}
	}
	e.Notice = func(step nacre.Step) {
		if !quiet {
			status.notice(step)
		}
	}
	result, err := a.execOnStreams(ctx, rt, e)
	switch {
	case !started && err != nil:
		return status.failed(err)
	case errors.Is(err, context.Canceled) && a.interrupted():
		return &exitError{code: exitInterrupted}
	case errors.Is(err, assembly.ErrStopped):
		return &exitError{exitInterrupted, err}
	case err != nil:
		return err
	}
	status.executed(result)
	if result.TimedOut || result.Limit != "" {
		return &exitError{code: exitTimeout}
	}
	if result.ExitCode != 0 {
		return &exitError{code: result.ExitCode}
	}
	return nil
}

// execOnStreams hands our streams through. Where they are a terminal, the
// command gets one of its own, so that it cannot type into ours; where one of them
// is, what it reads or prints there is passed on.
func (a *app) execOnStreams(ctx context.Context, rt *assembly.Runtime, e assembly.Exec) (assembly.ExecResult, error) {
	e.Stdin, e.Stdout, e.Stderr = a.stdin, a.stdout, a.stderr
	if !isTerminal(a.stdin) || !isTerminal(a.stdout) {
		input, end, err := sandbox.Feed(a.stdin)
		if err != nil {
			return assembly.ExecResult{}, err
		}
		defer end()
		e.Stdin = input
		return rt.Exec(ctx, e)
	}
	master, slave, err := sandbox.OpenPty()
	if err != nil {
		return assembly.ExecResult{}, err
	}
	e.Stdin, e.Stdout, e.Stderr = slave, slave, slave
	e.Term = orElse(a.getenv("TERM"), "xterm")
	var relayed chan error
	e.Relay = func(count func(io.Reader) io.Reader) {
		relayed = make(chan error, 1)
		go func() { relayed <- sandbox.Relay(a.stdin, a.stdout, master, count) }()
	}
	result, err := rt.Exec(ctx, e)
	err = errors.Join(err, slave.Close()) // the relay ends when nobody holds the other end
	if relayed != nil {
		err = errors.Join(err, <-relayed)
	}
	return result, errors.Join(err, master.Close())
}

// status tells what nacre does beside a command's own output: lines on stderr
// for people, events on descriptor 3 for scripts (M-06).
type status struct {
	app  *app
	json *os.File
}

// statusDescriptor is where --json status goes when the caller opened it.
const statusDescriptor = 3

func (a *app) status() status {
	if !a.json {
		return status{app: a}
	}
	if !inherited(statusDescriptor) {
		return status{a, a.stderr}
	}
	unix.CloseOnExec(statusDescriptor)
	return status{a, os.NewFile(statusDescriptor, "status")}
}

// inherited tells a descriptor that the caller opened from one that this process
// opened meanwhile, as the runtime of Go does for files of its own: those are
// closed on exec, and what came over one is not.
func inherited(descriptor uintptr) bool {
	flags, err := unix.FcntlInt(descriptor, unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// failed tells that nothing was started, and why.
func (s status) failed(err error) error {
	if s.json != nil {
		s.event("failed", map[string]any{"exit_code": exitExecFailed, "error": err.Error()})
	}
	return &exitError{exitExecFailed, err}
}

func (s status) event(name string, body any) {
	_ = printJSON(s.json, map[string]any{"event": name, "data": body}) // the reader may be gone
}

// printer writes while the command runs, when a terminal of ours is in raw mode.
func (s status) printer() *display.Printer {
	style := display.Detect(isTerminal(s.app.stderr), s.app.getenv)
	style.Raw = isTerminal(s.app.stdin) && isTerminal(s.app.stdout)
	return display.New(s.app.stderr, style)
}

func (s status) started(info assembly.SessionInfo) {
	if s.json != nil {
		s.event("started", info)
		return
	}
	p := s.printer()
	p.Field("nacre", "session %s · %s", info.Session, info.Sandbox)
	if info.Role != "" {
		p.Line("         role       %s: of it, what the operating system holds", info.Role)
	}
	p.Line("         may write  %s    may reach  %s", listOr(info.Writable, "nothing"), listOr(info.Egress, "nothing"))
	if len(info.Inside) > 0 {
		p.Line("         may read   %s", strings.Join(info.Inside, ", "))
	}
}

func (s status) question(q nacre.Question) {
	if s.json != nil {
		s.event("question", q)
		return
	}
	s.printer().Question(q, time.Now())
}

func (s status) notice(step nacre.Step) {
	if s.json != nil {
		s.event("notice", step)
		return
	}
	s.printer().Step(step)
}

func (s status) executed(result assembly.ExecResult) {
	if s.json != nil {
		s.event("exited", result)
		return
	}
	p := s.app.printer(s.app.stderr)
	if result.TimedOut {
		p.Field("nacre", "the time limit ended the command")
	}
	if result.Limit != "" {
		p.Field("nacre", "a limit ended the command: %s", result.Limit)
	}
	for _, file := range result.Planted {
		p.Mark("warn", "look", fmt.Sprintf("%s is new or changed: programs on this machine may run what it says; look before you go on", file))
	}
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
