// Package command runs one command sealed, in the folder of a project.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/gitdir"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/order"
	"github.com/nacre-dev/nacre/internal/plantings"
	"github.com/nacre-dev/nacre/internal/ports"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/seal"
)

// Exec is a command to run sealed (M-06).
type Exec struct {
	Argv    []string
	Project string // empty means a scratch folder
	Egress  []string
	// Role holds the command as far as the operating system can: where it may
	// write, and which programs are there. Empty means none.
	Role    string
	Group   nacre.Group
	Session nacre.SessionID // empty means a new one
	// Publish names which of its ports this machine's loopback leads to: PORT,
	// PORT:INSIDE or auto.
	Publish []string
	// Services are those of this machine that may be reached, such as localhost:5432.
	Services []string
	// Land says what becomes of the commits that it makes.
	Land gitdir.Landing
	Streams
	// Env are variables besides those of every sandbox, NAME=VALUE each: no secrets.
	Env    []string
	Limits nacre.Limits
	Asking seal.Asking
	// Started is told when the command runs, with what the session is.
	Started func(seal.SessionInfo)
	// Notice is told what the operator has to know while the command runs.
	Notice func(nacre.Step)
}

// Streams are what a command reads and prints to.
type Streams struct {
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	// Screen, where set, passes of what is printed on a terminal what may reach it.
	Screen func(io.Reader) io.Reader
	// Relay is set where the streams are a terminal that the caller made: it begins
	// to show what is printed there, read through count.
	Relay func(count func(io.Reader) io.Reader)
}

// ExecResult is what became of a command.
type ExecResult struct {
	Session  nacre.SessionID `json:"session"`
	ExitCode int             `json:"exit_code"`
	TimedOut bool            `json:"timed_out,omitempty"`
	// Limit says what it did beyond its limits, when it was ended for it.
	Limit string `json:"limit,omitempty"`
	// Memory says that the kernel ended processes of it for their memory.
	Memory string `json:"memory,omitempty"`
	// Planted is what makes the host run something later, and is new or changed.
	Planted plantings.Found `json:"planted,omitzero"`
	// Git is what became of the commits that it made.
	Git gitdir.Taken `json:"git,omitzero"`
}

// opened is a command whose session is open.
type opened struct {
	*seal.Session
	exec    Exec
	program Program
	project string
	own     []string // what of the installation lies in the project
	role    order.Role
	ports   *ports.Published
	git     *gitdir.Dir // nil where the host's is read-only, or there is none
}

// open opens the session of a command.
func open(ctx context.Context, inst *installation.Installation, e Exec, program Program) (o opened, err error) {
	o = opened{exec: e, program: program}
	if o.project, err = installation.ProjectFolder(e.Project); err != nil {
		return o, err
	}
	if o.role, err = order.CommandRole(o.project, e.Role); err != nil {
		return o, err
	}
	group, err := inst.Group(e.Group)
	if err != nil {
		return o, err
	}
	id := registry.OrNew(e.Session)
	if err := freeForExec(inst, id); err != nil {
		return o, err
	}
	if o.own, err = installation.OwnBelow(inst, o.project); err != nil {
		return o, &config.Error{Err: err}
	}
	laid := layGit(ctx, inst, e, o.project, id)
	o.Session, err = seal.Open(ctx, inst, seal.Request{
		ID: id, Group: group, Kind: program.Kind, Title: e.Argv[0], Project: o.project, Mind: seal.Mind{Brain: program.Brain, Version: program.Version, Model: program.Model},
		Ways: seal.Ways{Egress: e.Egress, Services: e.Services}, Asking: e.Asking, Listener: seal.Listener{Warn: e.Notice}, Holding: seal.Holding{Role: e.Role, Confined: e.Role != ""}, Said: seal.Said{Words: e.Argv},
	})
	if o.git = laid(); err != nil {
		err = errors.Join(err, o.git.Close())
	}
	return o, err
}

// layGit makes a git directory of the command's own while the session is opened.
// Where there can be none, the host's stays read-only, and the operator is told why. A
// role says itself what can be written, and git is not in it.
func layGit(ctx context.Context, inst *installation.Installation, e Exec, project string, id nacre.SessionID) (laid func() *gitdir.Dir) {
	if project == "" || e.Role != "" {
		return func() *gitdir.Dir { return nil }
	}
	done := make(chan *gitdir.Dir, 1)
	go func() {
		dir, err := gitdir.Open(ctx, project, inst.Registry.Paths().State, id)
		if err != nil && e.Notice != nil {
			e.Notice(nacre.Step{Kind: nacre.StepResult, Name: StepGit, Text: gitdir.Refusal(project, err), IsError: true})
		}
		done <- dir
	}()
	return func() *gitdir.Dir { return <-done }
}

// posture is what the command may reach, with what of its role is wider than it says.
func (o opened) posture(ctx context.Context, inside *Inside, caches Caches) (nacre.Posture, []string, error) {
	existing := o.git.Protects(process.LateExecution(o.project))
	in := posture.Input{
		Project: o.project, Protected: gitdir.Protected(o.project, existing, installation.Tops(o.own)), Limits: o.exec.Limits,
		Env: inside.Env, Mounts: slices.Concat(inside.Mounts, caches.Mounts), Model: o.program.Model,
	}
	o.git.Lay(&in)
	if err := o.filter(&in); err != nil {
		return nacre.Posture{}, nil, err
	}
	if o.program.Inside == nil { // what the caller's PATH finds (F-115)
		inside.Argv = order.Argv(o.Basis, &in, o.exec.Role, inside.Argv)
	}
	widened, err := o.role.Confine(o.Basis, &in)
	if err != nil {
		return nacre.Posture{}, nil, err
	}
	p, err := o.Posture(in)
	if err != nil {
		return nacre.Posture{}, nil, &config.Error{Err: err}
	}
	p = o.git.Place(p)
	masks, err := o.git.Masks(ctx, o.project, o.Dir())
	if err != nil {
		return nacre.Posture{}, nil, err
	}
	p.Mounts = append(p.Mounts, masks...)
	return p, widened, nil
}

// filter lets git inside filter what git LFS keeps, where that is there. What else filters
// files does not run, and they would be committed as they are: the operator is told. So are they of what git inside
// cannot go on with.
func (o opened) filter(in *posture.Input) error {
	var told []string
	if names := o.git.Unfiltered(); len(names) > 0 {
		told = append(told, fmt.Sprintf("the filters that the repository names do not run inside (%.100q): files that they filter would be committed as they are", names))
	}
	if name := o.git.Unfinished(); name != "" {
		told = append(told, fmt.Sprintf("your git is in the middle of a %s, and git inside does not know of it: go on with it or abort it yourself", name))
	}
	switch {
	case !o.git.FiltersLarge():
	case order.Tool(o.Basis, in, "git-lfs"):
		if err := o.git.FilterLarge(); err != nil {
			return err
		}
	case o.git.KeepsLarge():
		told = append(told, "git-lfs is not there inside: files that git LFS keeps would be committed whole")
	}
	for _, text := range told {
		if o.exec.Notice != nil {
			o.exec.Notice(nacre.Step{Kind: nacre.StepResult, Name: StepGit, Text: text, IsError: true})
		}
	}
	return nil
}

// Run runs a command, or a program that is known by more than its words, and returns when
// it and everything it started is gone.
func Run(ctx context.Context, inst *installation.Installation, e Exec, program Program) (result ExecResult, err error) {
	s, err := open(ctx, inst, e, program)
	if err != nil {
		return ExecResult{}, err
	}
	defer func() { err = errors.Join(err, s.git.Close()) }()
	ctx = s.Interruption.Context(ctx, s.Warn)
	result.Session = s.ID()
	outcome := "failed"
	defer func() { err = errors.Join(err, s.Finish(ctx, outcome, "", s.project)) }()
	if err := s.publish(ctx); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.ports.Close()) }()
	inside, err := program.inside(s.Session, e, s.project)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, inside.ended()) }()
	caches := s.caches(ctx)
	defer func() { err = errors.Join(err, caches.ended()) }()
	p, widened, err := s.posture(ctx, &inside, caches)
	if err != nil {
		return result, err
	}
	exit, begun, err := s.run(ctx, p, inside.Argv, widened, &result)
	if !begun {
		return result, err
	}
	result.Planted, err = s.Watch.LookForPlanted(ctx, s.project, s.Started, s.Before, err)
	outcome = fmt.Sprintf("exit %d", exit.Code)
	var untaken error
	result.Git, untaken = s.git.Take(ctx, s.Basis, e.Land, gitdir.DefaultLimits())
	return result, errors.Join(err, untaken, ended(ctx, s.Session))
}

// run starts the command and waits for its end.
func (o opened) run(ctx context.Context, p nacre.Posture, argv, widened []string, result *ExecResult) (exit sandbox.Exit, begun bool, err error) {
	g, e := process.NewKeeper(p.Limits), o.exec
	stdout, stderr, started, err := e.streams(g.Meter)
	if err != nil {
		return exit, false, err
	}
	g.Count(p.Mounts)
	defer g.Close()
	held := keptIn(o.project, p.Mounts)
	process, err := o.Start(ctx, sandbox.Command{
		Posture: p, SocketDir: o.SocketDir(), Argv: argv, Stdin: e.Stdin, Stdout: stdout, Stderr: stderr, Terminal: e.Relay != nil,
		Network: o.ports.Network(),
	})
	started()
	if err != nil {
		g.Meter.Finish(true)
		return exit, false, &installation.NotReady{What: "start " + e.Argv[0], Err: err}
	}
	g.Watch(process)
	told := tellRunning(o.Session, process)
	if e.Started != nil {
		info := o.Info(p, o.Agent)
		info.Role, info.Widened, info.Published = e.Role, widened, o.ports.Links()
		e.Started(info)
	}
	o.ports.Begin()
	defer held.follow(o.project, o.Warn, o.Fail)()
	exit, err = o.Wait(ctx, process)
	g.Meter.Finish(!exit.TimedOut && !exit.Killed)
	result.ExitCode, result.TimedOut, result.Limit, result.Memory = exit.Code, exit.TimedOut, g.Close(), exit.Memory(p.Limits.Memory)
	o.NoteLimit(ctx, result.Limit)
	return exit, true, errors.Join(err, told, g.Meter.Unwritten())
}

// StepGit names the notice of what git cannot do inside.
const StepGit = "git"

// StepPort names the notice of a port that began to listen inside.
const StepPort = "port"

// publish listens for the ports inside that are published.
func (o *opened) publish(ctx context.Context) (err error) {
	request, err := ports.Parse(o.exec.Publish)
	if err != nil {
		return &config.Error{Err: err}
	}
	o.ports, err = ports.Open(ctx, ports.Options{
		Request: request, Record: o.Recorder, Claim: o.Inst.Registry.Paths().ClaimPort, Taken: append(o.Services.Ports(), nacre.EgressPort, nacre.ModelPort),
		Told: func(text string) { o.Warn(nacre.Step{Kind: nacre.StepResult, Name: StepPort, Text: text}) },
	})
	if err != nil {
		return &installation.NotReady{What: "ports", Err: err}
	}
	return nil
}

// tellRunning writes that the session runs. Where that cannot be written the process ends.
func tellRunning(s *seal.Session, process sandbox.Process) error {
	err := s.Running()
	if err != nil {
		err = errors.Join(err, process.Kill())
	}
	return err
}

// streams are what the command prints to, through the meter.
func (e Exec) streams(m *sandbox.Meter) (stdout, stderr *os.File, started func(), err error) {
	if e.Relay == nil {
		return m.Streams(e.Stdout, e.Stderr, e.Screen)
	}
	e.Relay(func(printed io.Reader) io.Reader {
		if e.Screen == nil {
			return m.Reader(printed)
		}
		return e.Screen(m.Reader(printed))
	})
	return e.Stdout, e.Stderr, func() {}, nil
}

// freeForExec keeps a command out of a session that a run will go on with.
func freeForExec(inst *installation.Installation, id nacre.SessionID) error {
	known, err := inst.Registry.Show(id)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return nil
	case err != nil:
		return err
	case known.Resumable:
		return config.Errorf("session %s has the unfinished work of a run: use another name, or go on with `nacre run --session %s`", id, id)
	}
	return nil
}

// ended is why the session was cut short, if it was. What the command said of its own
// end after nacre was told to end is not how it ended: its calls were refused for that.
func ended(ctx context.Context, s *seal.Session) error {
	if err := s.Failure(); err != nil {
		return err
	}
	select {
	case <-s.Interruption.Begun():
		select {
		case <-ctx.Done():
		case <-s.Context().Done():
		}
	default:
	}
	return errors.Join(context.Cause(ctx), context.Cause(s.Context()))
}
