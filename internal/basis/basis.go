// Package basis is what a sealed session and whoever works in one stand on: the open session and
// its installation, and what was found of the machine. It also has what the agent may reach, whom
// it tells, and its place among agents that asked for one another. It serves nothing.
package basis

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/toolchain"
)

// Basis is what all parts of a session stand on.
type Basis struct {
	*session.Session // nil until it is open
	Inst             *installation.Installation
	Agent            string // the brain with its version
	Found            *Findings
	Started          time.Time
	// Before is what stood at the top of its project before the agent had it.
	Before     planted.Top
	Tell, Warn func(nacre.Step)
	// Folders are those outside of its project that its agent asked for; nil where it has no door.
	Folders Folders
	// Rules are all that the session's agent may reach.
	Rules []nacre.EgressRule
	// Powers are those that it has: of credentials that are locked without.
	Powers []string
}

// KindRun is what a session is whose agent works on a clone, and whose work is verified.
const KindRun = "run"

// New is what a session stands on that begins now, before it is open. Where warn is nil, tell is
// told of what the operator has to know.
func New(inst *installation.Installation, project, agent string, tell, warn func(nacre.Step)) *Basis {
	b := &Basis{Inst: inst, Agent: agent, Tell: oneAtATime(tell), Started: inst.Options.Now(), Before: search.Top(project)}
	if b.Warn = b.Tell; warn != nil {
		b.Warn = oneAtATime(warn)
	}
	return b
}

// oneAtATime lets several goroutines tell, and keeps them apart.
func oneAtATime(tell func(nacre.Step)) func(nacre.Step) {
	if tell == nil {
		return func(nacre.Step) {}
	}
	var mu sync.Mutex
	return func(s nacre.Step) {
		mu.Lock()
		defer mu.Unlock()
		tell(s)
	}
}

// Opening is what a session is opened with beside what its installation has.
type Opening struct {
	// Status is what the registry knows of it, but for its state and when it began.
	Status nacre.SessionStatus
	// AskTTL is how long a person has to answer; zero means 5 minutes (D-13).
	AskTTL time.Duration
	// Prepare, Notify, Directory and Reload are those of [session.Options].
	Prepare   func(dir string) error
	Notify    func(nacre.Question)
	Directory func() (person.Directory, error)
	Reload    func(ctx context.Context, name nacre.PluginName) error
}

// Open opens the session itself: its folder, sockets, chain and desk.
func (b *Basis) Open(ctx context.Context, o Opening) (err error) {
	o.Status.State, o.Status.Started = nacre.SessionOpen, b.Started
	b.Session, err = session.Open(ctx, session.Options{
		Registry: b.Inst.Registry, Sandbox: b.Inst.BackendAhead, EndOrphans: installation.EndOrphans, Keys: b.Inst.Keys, Now: b.Inst.Options.Now, AskTTL: o.AskTTL, Elsewhere: b.Inst.Elsewhere, Attend: b.Inst.Attend,
		Session: registry.Session{SessionStatus: o.Status, Began: b.Started, Before: b.Before},
		Prepare: o.Prepare, Notify: o.Notify, Reload: o.Reload, Directory: o.Directory,
	})
	return err
}

// Folders are those that a session's agent asks a person for.
type Folders interface {
	// Tool is what it asks with.
	Tool() nacre.Tool
	// Began shows in a sandbox in which it runs from now on what it is shown already.
	Began(p sandbox.Process) error
	// Close lets go of them, when nothing runs in the session any more.
	Close()
}

// DropPackages removes what was fetched for the session's agent, when nothing runs in it any more.
func (b *Basis) DropPackages() error {
	return registry.Discard(filepath.Join(b.Dir(), registry.PackagesDir))
}

// Start launches a command in the session's sandbox, as [session.Session.Start] does. Where the
// session's agent is in it, which is where the session's sockets are, the folders are shown in it
// that a person lets the agent see.
func (b *Basis) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := b.Session.Start(ctx, c)
	if err == nil && b.Folders != nil && c.SocketDir == b.SocketDir() {
		if err := b.Folders.Began(p); err != nil {
			b.Warn(nacre.Step{Kind: nacre.StepResult, Name: "folder", Text: err.Error(), IsError: true})
		}
	}
	return p, err
}

// Earlier are the chains of its openings that were interrupted.
func (b *Basis) Earlier() []string { return session.Earlier(b.Session) }

// Stopped is [session.ErrStopped] where somebody stopped the session, and nil otherwise: what fails
// on the way says that a context ended, or a program, and not who wanted it. It tells so until
// the session closes, which ends what runs like a stop.
func (b *Basis) Stopped() error {
	if b.Session == nil || !errors.Is(context.Cause(b.Context()), session.ErrStopped) {
		return nil
	}
	return session.ErrStopped
}

// NoteLimit records and tells that a sandbox was ended for a limit. The
// recorder itself stops the session where it fails.
func (b *Basis) NoteLimit(ctx context.Context, why string) {
	if why == "" {
		return
	}
	_ = b.Recorder.Commit(context.WithoutCancel(ctx), nacre.Record{Kind: installation.KindLimit, Source: "core", Outcome: "ended", Reason: why})
	b.Warn(nacre.Step{Kind: nacre.StepResult, Name: "limit", Text: "the sandbox was ended: " + why, IsError: true})
}

// Findings are what a session needs to know of the machine. They are looked up
// while the session opens; wait before reading them.
type Findings struct {
	Wait sync.WaitGroup
	// System are the mounts of the system folders; it does not wait.
	System     func() []nacre.Mount
	Toolchains []posture.Toolchain
	Plugins    []pluginhost.Found
	Err        error // of plugins
}

// LookAround finds the plugins by what it is given, and looks for none where that is nil.
func LookAround(ctx context.Context, inst *installation.Installation, plugins func() ([]pluginhost.Found, error)) *Findings {
	f := &Findings{System: sync.OnceValue(sandbox.SystemMounts)}
	f.Wait.Go(func() {
		f.Toolchains = toolchain.Find(ctx, toolchain.OpenMemo(inst.Options.Getenv, filepath.Join(inst.Registry.Paths().State, "toolchains.json"), f.System))
	})
	if plugins != nil {
		f.Wait.Go(func() { f.Plugins, f.Err = plugins() })
	}
	return f
}
