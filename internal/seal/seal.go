// Package seal opens a sealed session with everything that serves it: memory,
// plugins, kernel, door, proxy, gateway, credentials and tripwires. What goes through
// the door or the proxy passes the same stages in each session, in the order that
// ARCHITECTURE.md shows.
package seal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/leasing"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/metering"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/quiet"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
	"github.com/nacre-dev/nacre/internal/watch"
)

// Asking decides how a person is asked. With its zero value a question waits
// for `nacre approvals` in another terminal until it expires.
type Asking struct {
	// Ask is told of each question and may answer it through answer, from any
	// goroutine. It must not block.
	Ask func(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error))
	// Settled, where set, is told of each question that waits no longer, whoever
	// answered it.
	Settled func(id string)
	// In and Out, where set, are a terminal that is asked y or n. By is recorded
	// as who answered there.
	In  io.Reader
	Out io.Writer
	By  string
	// Watched says that a person sees each question at once: connections to hosts that
	// are not listed wait for the answer (U-11).
	Watched bool
	// Patience is how long a question waits where the config does not say; zero means 5
	// minutes.
	Patience time.Duration
	// Confirm, where set, is told before a run begins what will keep its work from landing,
	// and whether its agent costs money. With an error nothing begins.
	Confirm func(ctx context.Context, obstacles []string, costs bool) error
}

// Said is what the operator said.
type Said struct {
	Task string
	// Words are what they typed that is not a task, such as a command. They are the
	// operator's for what the kernel asks about, and nobody's justification.
	Words []string
}

// Holding is what a role does to a session.
type Holding struct {
	// Role is what holds a command, if anything does.
	Role string
	// Confined says that a role keeps parts of the project from the agent.
	Confined bool
}

// Request is what a sealed session is opened for.
type Request struct {
	ID      nacre.SessionID
	Group   nacre.Group
	Kind    string
	Title   string
	Project string
	Brain   string
	Version string // of the brain
	Said
	Ways
	Model   bool
	Asking  Asking
	Prepare func(dir string) error
	Tell    func(nacre.Step)
	// Warn tells what the operator has to know; where it is not set, tell does.
	Warn func(nacre.Step)
	Holding
	// Kin is the session's place among agents that asked for one another.
	Kin basis.Kin
	// Shared, where it is set, runs plugins for several sessions; the session uses
	// their tools and starts the others.
	Shared *hosting.Shared
}

// Session is an open session with everything that serves it.
type Session struct {
	*basis.Basis
	*toolset
	// Services are those of this machine that the agent may reach, or ask for.
	Services asking.Services
	Model    *metering.Meter
	Watch    *watch.Watch     // nil until it is set up
	proposer *asking.Proposer // nil where nobody is asked about hosts that were refused
	leases   *leasing.Credentials
	Limited  atomic.Value // a string: for which limit the agent was ended

	questions chan nacre.Question
	asked     sync.WaitGroup
}

// Open opens a session with its memory, plugins, kernel, door, proxy and gateway.
func Open(ctx context.Context, inst *installation.Installation, req Request) (*Session, error) {
	if err := inst.PolicySeen(); err != nil {
		return nil, err
	}
	started := inst.Options.Now() // one moment for all that it may reach
	reach, unlearned := reachOf(inst, req, started)
	rules, err := reach.Rules(req.Egress)
	opened, unopened := reach.Opened(req.Egress)
	powers, unpowered := reach.powers(rules, req.Egress)
	if h := req.Kin.Handed; h != nil {
		rules = h.Rules // of its parent's
	}
	services, refused := asking.OpenServices(inst, req.Services)
	if err := errors.Join(unlearned, err, unopened, unpowered, refused); err != nil {
		return nil, &config.Error{Err: err}
	}
	if err := operator.SettleAll(ctx, inst, req.Project, operator.TellSteps(req.Warn, req.Tell)); err != nil {
		return nil, err
	}
	on := &basis.Basis{
		Inst: inst, Agent: strings.TrimSpace(req.Brain + " " + req.Version), Tell: installation.OneAtATime(req.Tell), Started: started, Before: search.Top(req.Project), Rules: rules, Powers: reach.unlocked(req),
	}
	if on.Warn = on.Tell; req.Warn != nil {
		on.Warn = installation.OneAtATime(req.Warn)
	}
	s := &Session{Basis: on, toolset: newToolset(on, req), Services: services, questions: make(chan nacre.Question, approval.MaxPending)}
	if req.Kind == "exec" && req.Shared == nil {
		s.looks = looksOf(inst, req.Group)
	}
	later := quiet.Is(inst, req.Group, s.looks)
	s.Found = basis.LookAround(ctx, inst, req.Group, later)
	defer s.Found.Wait.Wait()
	if !later {
		s.remember(ctx, req.Group)
	}
	if err := s.open(ctx, req, opening{opened, reach.Uses(), powers, later}); err != nil {
		return nil, errors.Join(err, s.Stopped(), s.Close(ctx, "not opened", s.Session == nil || !s.Resumed() && !s.CarriedOn()))
	}
	return s, nil
}

// remember opens the memory beside the session. Nothing of either is used before
// both are open: no memory, no run (M-01, D-45).
func (t *toolset) remember(ctx context.Context, group nacre.Group) {
	var store *memory.Store
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		store, err = installation.OpenWorkingMemory(ctx, t.Inst, group, t.calls.kin.Working(), func(text string) {
			t.Warn(nacre.Step{Kind: nacre.StepResult, Name: "memory", Text: text, IsError: true})
		})
	}()
	t.remembered = sync.OnceValue(func() error {
		<-done
		t.Memory = store
		return err
	})
}

// open opens what the agent needs; what its calls reach as well, unless that is for later.
func (s *Session) open(ctx context.Context, req Request, o opening) error {
	r := s.Inst
	var err error
	s.Session, err = session.Open(ctx, session.Options{
		Registry: r.Registry, Sandbox: r.BackendAhead, EndOrphans: installation.EndOrphans, Keys: r.Keys, Now: r.Options.Now, AskTTL: cmp.Or(r.Config.AskTTL(), req.Asking.Patience),
		Session: registry.Session{SessionStatus: nacre.SessionStatus{
			ID: req.ID, Group: req.Group, Kind: req.Kind, Title: req.Title, Project: req.Project, Brain: req.Brain,
			State: nacre.SessionOpen, Started: s.Started, Parent: req.Kin.Parent,
		}, Began: s.Started, Before: s.Before},
		Prepare: req.Prepare, Notify: s.notify(req.Asking), Reload: s.reloadPlugin, Directory: asking.Persons(r),
	})
	if memoryErr := s.remembered(); memoryErr != nil && !o.later {
		return memoryErr // which says more than what else went wrong
	}
	if err != nil {
		return s.Inst.Writable(err)
	}
	s.Model = metering.New(r, s.Session, metering.Options{Agent: s.Agent, Tell: installation.Noticed(s.Tell), Observe: s.overhear})
	s.calls.ctx, s.calls.cancel = context.WithCancel(s.Context()) // close cancels it
	if err := s.recordOpen(ctx, req); err != nil {
		return err
	}
	reactions, err := r.Config.Reactions()
	if err != nil {
		return &config.Error{Err: err}
	}
	if s.Watch, err = watch.Open(r, s.Session, reactions, s.Warn); err != nil {
		return err
	}
	if s.pins, err = s.newPinner(req.Folder); err != nil {
		return err
	}
	if err := s.leaseAll(ctx, req, o); err != nil {
		return err
	}
	s.askTerminal(req.Asking)
	s.Found.Wait.Wait()
	if !o.later {
		if err := s.reachable(ctx, req.Task); err != nil {
			return err
		}
		s.calls.done.Store(true)
	}
	close(s.calls.ready)
	who := r.Principal(req.Group, req.ID, req.Task)
	if h := req.Kin.Handed; h != nil {
		who = h.Principal
	}
	who.Agent = cmp.Or(req.Brain, r.Config.Brain.Name, "agent") // one that answers messages is chosen when it is woken
	if err := s.serveDoor(who); err != nil {
		return err
	}
	if err := s.serveEgress(req.Asking.Watched, o.powers); err != nil {
		return err
	}
	if req.Model {
		return s.Model.Serve()
	}
	return nil
}

// notify tells whoever asked to be told, and queues the question for the terminal.
func (s *Session) notify(asking Asking) func(nacre.Question) {
	return func(q nacre.Question) {
		if asking.Ask != nil {
			asking.Ask(q, func(ruling nacre.Ruling) (nacre.Pressed, error) {
				return s.Approvals.Press(approval.Here(q, ruling))
			})
		}
		if asking.Settled != nil {
			settled := s.Approvals.Settled(q.ID)
			s.asked.Go(func() { // every question is settled with the session's end
				<-settled
				asking.Settled(q.ID)
			})
		}
		if asking.In != nil {
			s.questions <- q // has room for as many as can wait
		}
	}
}

// askTerminal asks a person at the terminal the session was started from.
func (s *Session) askTerminal(asking Asking) {
	if asking.In == nil {
		return
	}
	lines := make(chan string)
	go func() { _ = approval.Lines(s.Context(), asking.In, lines) }() // ends with the next line typed, or the process
	terminal := approval.Terminal{Desk: s.Approvals, Lines: lines, Out: asking.Out, By: asking.By}
	s.asked.Add(1)
	go func() {
		defer s.asked.Done()
		_ = terminal.Run(s.Context(), s.questions) // a terminal that is gone leaves questions to others
	}()
}

// recordOpen is durable with the first record that something waits for: whatever
// is started, or let out, is recorded after it and waits.
func (s *Session) recordOpen(ctx context.Context, req Request) error {
	detail, err := json.Marshal(map[string]any{
		"kind": req.Kind, "work": s.Work(), "brain": s.Agent, "resumed": s.Resumed(), "policy": s.Inst.Policy.Version(),
		"version": s.Inst.Options.Version, "role": req.Role, "egress": s.Inst.Config.Reach(req.Group, s.Rules, s.Powers...), "powers": s.Powers, "inside": s.Inst.Config.Delivered(req.Group), "services": s.Services.Texts(),
		"parent": req.Kin.Row, "parent_session": req.Kin.Parent,
	})
	if err != nil {
		return err
	}
	return s.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindSessionOpen, Source: "core", Detail: detail})
}

func (s *Session) serveDoor(principal nacre.Principal) error {
	return s.Listen(nacre.DoorSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return door.Serve(ctx, listener, door.Session{
			ID: s.ID(), Group: s.Group(), Principal: principal, PeerUID: s.peerUIDs(),
		}, s.Door(), door.Deps{
			Recorder: installation.Words{Recorder: s.refusals.Of(s.Recorder), Redact: s.Inst.Redact}, Now: s.Inst.Options.Now, NewID: installation.RandomHex, Redact: func(document []byte) ([]byte, []string) { return installation.RedactJSON(s.Inst, document) }, Sanitize: installation.Sanitize, Limits: door.Limits{Answer: s.Inst.Config.Limits.IPC()}, Closing: s.Interruption.Begun(),
		})
	})
}

// peerUIDs are the host users that connections from inside come from (D-01).
func (s *Session) peerUIDs() []uint32 {
	var uids []uint32
	for _, uid := range s.Sandbox().PeerUIDs() {
		uids = append(uids, uint32(uid)) //nolint:gosec // a user id
	}
	return uids
}

func (s *Session) serveEgress(watched bool, powers []nacre.EgressRule) error {
	if s.calls.kin.Handed == nil { // a sub-agent's hosts are its parent's to name
		s.proposer = asking.Propose(s.Inst, s.Session, s.Warn)
	}
	options, err := s.leases.Into(s.Services.Into(egress.Options{
		Rules: s.Rules, Record: s.Watch.Recorder(installation.Notice{Recorder: s.Recorder, Tell: installation.Noticed(s.Tell), Warn: installation.Noticed(s.Warn)}), Asking: egress.Asking{Propose: s.proposer.Told(), Hold: s.Inst.Config.Hold(watched)}, Inspect: egress.Inspection{Each: s.Watch.Inspect, PassOpaque: s.Watch.StopsNothing()}, Revoked: egress.Revocation{All: s.Watch.Revoked, Rule: withheld(s, powers)}, Session: s.ID(), Group: s.Group(), Now: s.Inst.Options.Now, Limits: s.Inst.Config.Egress.Limits.Proxy(),
	}))
	if err != nil {
		return err
	}
	if options.Upstream, err = s.Inst.Config.Egress.Upstream(s.Inst.Options.Getenv); err != nil {
		return &config.Error{Err: err}
	}
	proxy, err := egress.New(options)
	if err != nil {
		return &config.Error{Err: err}
	}
	s.proposer.Through(proxy)
	if err := s.proposer.Again(session.Earlier(s.Session)); err != nil {
		return err
	}
	return errors.Join(s.Listen(nacre.EgressSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return proxy.Serve(ctx, s.Watch.Listener(listener))
	}), s.Services.Serve(s.Session), s.leases.ServeSSH(s.Watch.Revoked, installation.Noticed(s.Warn)))
}

// Posture computes what the session's agent may reach.
func (s *Session) Posture(in posture.Input) (nacre.Posture, error) { return s.PostureWith(in, nil) }

// PostureWith is posture with dependencies that were fetched: those that lie below
// the folder of a command, and those in the place of a toolchain's cache.
func (s *Session) PostureWith(in posture.Input, modules []verify.Module) (nacre.Posture, error) {
	in.Egress, in.Forwards = s.Rules, s.Services.Forwards()
	in.Credentials = s.Inst.Config.Scopes(s.Group(), s.leases.Uses(), s.Powers...)
	in.Limits = s.Inst.Config.Limits.Over(in.Limits)
	if s.Sandbox().HostTools() {
		in.System, in.Toolchains = slices.Clone(s.Found.System()), s.Found.Toolchains
	}
	in.Toolchains = toolchain.ShownCrates(toolchain.ShownModules(in.Toolchains, modules), modules)
	in.Mounts = append(slices.Clone(in.Mounts), toolchain.ModuleMounts(modules)...)
	if !in.Offline {
		in.Programs = installation.Programs(s.Inst)
		in.Mounts = append(slices.Clone(in.Mounts), s.Watch.Mounts()...)
		in.Env = append(slices.Clone(in.Env), s.Watch.Environment()...)
		given, env, err := s.leases.Shown()
		if err != nil {
			return nacre.Posture{}, err
		}
		settings, named, err := toolchain.ShowSettings(filepath.Join(s.Dir(), settingsDir), s.Inst.Options.Getenv)
		if err != nil {
			return nacre.Posture{}, err
		}
		in.Mounts = slices.Concat(in.Mounts, settings, given)
		in.Env = slices.Concat(env, named, in.Env)
	}
	return posture.Compute(in)
}

// Skills teach a brain the tools that its group may use (D-31).
func (t *toolset) Skills(principal nacre.Principal) []brain.Skill {
	var core []nacre.Capability
	schedules := false
	for _, c := range t.usable(principal) {
		if c.Intrinsic {
			core = append(core, c)
		}
		schedules = schedules || strings.HasPrefix(string(c.ID), schedule.Plugin+".")
	}
	skills := []brain.Skill{
		{Name: "nacre", Markdown: pluginhost.GenerateSkill("nacre", core)}, {Name: memory.Plugin, Markdown: memory.Skill()},
	}
	if schedules {
		skills = append(skills, brain.Skill{Name: schedule.Plugin, Markdown: schedule.Skill()})
	}
	if t.plugins == nil {
		return skills
	}
	for _, skill := range t.plugins.Skills() {
		var text strings.Builder
		for _, file := range skill.Files {
			text.WriteString(file.Text + "\n")
		}
		skills = append(skills, brain.Skill{Name: skill.Name, Markdown: text.String()})
	}
	return skills
}

// Close ends everything of the session, in the order in which it depends on itself.
func (s *Session) Close(ctx context.Context, outcome string, finished bool) error {
	ctx = context.WithoutCancel(ctx)
	s.calls.end()
	s.Watch.Await()
	s.proposer.Account()
	var errs []error
	s.plugins.Close(ctx)
	if s.Kernel != nil {
		errs = append(errs, s.waitForDrivers(ctx), s.pins.Close())
		s.calls.kin.Over(s.Kernel.Tainted(nacre.KeyOf(s.Group(), s.ID())))
		memory.OfferReview(ctx, s.Memory, s.ID(), s.Warn)
	}
	quiet := s.rests(ctx)
	forgotten := s.closeMemory()
	if s.Session != nil {
		errs = append(errs, s.leases.Close(ctx), registry.Discard(filepath.Join(s.Dir(), installation.PackagesDir)), s.Session.Close(ctx, outcome, finished))
	}
	s.asked.Wait()
	if s.calls.cancel != nil {
		s.calls.cancel()
	}
	err := errors.Join(append(errs, <-forgotten)...)
	s.rest(quiet)
	return err
}

// closeMemory closes the memory while the session closes: a call that comes now fails.
func (t *toolset) closeMemory() <-chan error {
	closed := make(chan error, 1)
	if err := t.remembered(); err != nil {
		closed <- nil // it never was open, and somebody was told
		return closed
	}
	go func() { closed <- t.Memory.Close() }()
	return closed
}

// waitForDrivers lets what still runs for a call end before its chain does.
func (t *toolset) waitForDrivers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hosting.DriversLimit)
	defer cancel()
	return t.Kernel.Wait(ctx)
}

// settingsDir holds, in a session's folder, the settings of package tools.
const settingsDir = "settings"
