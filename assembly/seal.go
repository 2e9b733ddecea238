package assembly

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/verify"
	"github.com/nacre-dev/nacre/kernel"
)

// briefLimit is how long the memory brief may take before a run starts without it (D-43).
const briefLimit = 5 * time.Second

// driversLimit is how long a session waits at its end for calls that were left
// behind, such as a plugin's that does not heed its deadline.
const driversLimit = 5 * time.Second

// Asking decides how a person is asked. With its zero value a question waits
// for `nacre approvals` in another terminal until it expires.
type Asking struct {
	// Ask is told of each question and may answer it through answer, from any
	// goroutine. It must not block.
	Ask func(q nacre.Question, answer func(nacre.Ruling) error)
	// In and Out, where set, are a terminal that is asked y or n. By is recorded
	// as who answered there.
	In  io.Reader
	Out io.Writer
	By  string
}

// request is what a sealed session is opened for.
type request struct {
	id      nacre.SessionID
	group   nacre.Group
	kind    string
	title   string
	project string
	brain   string
	version string // of the brain
	task    string
	egress  []string
	model   bool
	asking  Asking
	prepare func(dir string) error
	tell    func(nacre.Step)
	// warn tells what the operator has to know; where it is not set, tell does.
	warn func(nacre.Step)
	// role is what holds a command, if anything does.
	role string
	// confined says that a role keeps parts of the project from the agent.
	confined bool
	// shared, where it is set, runs plugins for several sessions; the session uses
	// their tools and starts the others.
	shared *sharedPlugins
}

// sealed is an open session with everything that serves it.
type sealed struct {
	*session.Session
	runtime *Runtime
	rules   []nacre.EgressRule
	host    *pluginhost.Host
	memory  *memory.Store
	// remembered waits until the memory is open.
	remembered func() error
	gateway    *model.Gateway
	agent      string // the brain with its version
	tell       func(nacre.Step)
	// upstream is the host of the model, limit what may be spent there in
	// millionths of a dollar.
	upstream string
	limit    int64
	today    string            // what was left of the day's budgets when it began
	earlier  audit.ReceiptCost // of the work's earlier openings
	project  string            // the folder that the agent works on
	token    nacre.Secret      // what the brain shows the gateway: worth nothing elsewhere
	found    *findings
	kernel   *kernel.Kernel
	pins     *pinner
	warn     func(nacre.Step)
	trips    *trips
	proposer *proposer // nil where nobody is asked about hosts that were refused
	leases   *holding
	limited  atomic.Value // a string: for which limit the agent was ended
	started  time.Time
	kind     string // of the session
	confined bool   // by a role, to parts of the project
	stage    *stage // where its plugins run
	turned   turned // what its door refused
	late     []*late
	calls    *calls
	looks    string // of what its calls reach, before that was opened; empty where nobody keeps it
	idle     bool   // none of its plugins was started
	shared   *sharedPlugins
	// reloading is held while a plugin takes the place of what it was.
	reloading sync.Mutex

	questions chan nacre.Question
	asked     sync.WaitGroup
}

// seal opens a session with its memory, plugins, kernel, door, proxy and gateway.
func (r *Runtime) seal(ctx context.Context, req request) (*sealed, error) {
	rules, err := r.config.Egress.rules(req.egress)
	if err != nil {
		return nil, &ConfigError{err}
	}
	if err := r.settleAll(ctx, req.project); err != nil {
		return nil, err
	}
	s := &sealed{
		runtime: r, project: req.project, agent: strings.TrimSpace(req.brain + " " + req.version), tell: oneAtATime(req.tell), rules: rules, token: nacre.NewSecret(randomHex()), started: r.options.Now(),
		kind: req.kind, calls: &calls{ready: make(chan struct{})}, confined: req.confined, shared: req.shared,
		questions: make(chan nacre.Question, approval.MaxPending), remembered: func() error { return errNotOpened },
	}
	if s.warn = s.tell; req.warn != nil {
		s.warn = oneAtATime(req.warn)
	}
	if req.kind == "exec" && req.shared == nil {
		s.looks = r.looks(req.group)
	}
	later := r.isQuiet(req.group, s.looks)
	s.found = r.look(ctx, req.group, later)
	defer s.found.wait.Wait()
	if !later {
		s.remember(ctx, req.group)
	}
	if err := s.open(ctx, req, later); err != nil {
		return nil, errors.Join(err, s.close(ctx, "not opened", s.Session == nil || !s.Resumed()))
	}
	return s, nil
}

// remember opens the memory beside the session. Nothing of either is used before
// both are open: no memory, no run (M-01, D-45).
func (s *sealed) remember(ctx context.Context, group nacre.Group) {
	var store *memory.Store
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		store, err = s.runtime.openMemory(ctx, group, func(text string) {
			s.warn(nacre.Step{Kind: nacre.StepResult, Name: "memory", Text: text, IsError: true})
		})
	}()
	s.remembered = sync.OnceValue(func() error {
		<-done
		s.memory = store
		return err
	})
}

// open opens what the agent needs; what its calls reach as well, unless that is for later.
func (s *sealed) open(ctx context.Context, req request, later bool) error {
	r := s.runtime
	var err error
	s.Session, err = session.Open(ctx, session.Options{
		Registry: r.registry, Sandbox: r.backendAhead, EndOrphans: endOrphans, Keys: r.keys, Now: r.options.Now, AskTTL: r.config.askTTL(),
		Session: registry.Session{SessionStatus: nacre.SessionStatus{
			ID: req.id, Group: req.group, Kind: req.kind, Title: req.title, Project: req.project, Brain: req.brain,
			State: nacre.SessionOpen, Started: s.started,
		}},
		Prepare: req.prepare, Notify: s.notify(req.asking), Reload: s.reloadPlugin,
	})
	if memoryErr := s.remembered(); memoryErr != nil && !later {
		return memoryErr // which says more than what else went wrong
	}
	if err != nil {
		return s.runtime.writable(err)
	}
	s.calls.ctx, s.calls.cancel = context.WithCancel(s.Context()) // close cancels it
	if err := s.recordOpen(ctx, req); err != nil {
		return err
	}
	if err := s.setTrips(); err != nil {
		return err
	}
	if s.pins, err = s.newPinner(req.kind); err != nil {
		return err
	}
	if err := s.openLeases(ctx, req.group); err != nil {
		return err
	}
	s.askTerminal(req.asking)
	s.found.wait.Wait()
	if !later {
		if err := s.reachable(ctx, req.task); err != nil {
			return err
		}
		s.calls.done.Store(true)
	}
	close(s.calls.ready)
	if err := s.serveDoor(r.principal(req.group, req.id, req.task)); err != nil {
		return err
	}
	if err := s.serveEgress(); err != nil {
		return err
	}
	if req.model {
		return s.serveModel()
	}
	return nil
}

// notify tells whoever asked to be told, and queues the question for the terminal.
func (s *sealed) notify(asking Asking) func(nacre.Question) {
	return func(q nacre.Question) {
		if asking.Ask != nil {
			asking.Ask(q, func(ruling nacre.Ruling) error { return s.Approvals.Answer(q.ID, ruling) })
		}
		if asking.In != nil {
			s.questions <- q // has room for as many as can wait
		}
	}
}

// askTerminal asks a person at the terminal the session was started from.
func (s *sealed) askTerminal(asking Asking) {
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
func (s *sealed) recordOpen(ctx context.Context, req request) error {
	detail, err := json.Marshal(map[string]any{
		"kind": req.kind, "brain": s.agent, "resumed": s.Resumed(), "policy": s.runtime.policy.Version(),
		"version": s.runtime.options.Version, "role": req.role, "egress": s.runtime.config.reach(req.group, s.rules), "inside": s.runtime.config.delivered(req.group),
	})
	if err != nil {
		return err
	}
	return s.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindSessionOpen, Source: "core", Detail: detail})
}

func ruleTexts(rules []nacre.EgressRule) []string {
	texts := make([]string, 0, len(rules))
	for _, rule := range rules {
		text := rule.String()
		if rule.Pin.IsValid() {
			text += " pinned to " + rule.Pin.String()
		}
		texts = append(texts, text)
	}
	return texts
}

func (s *sealed) serveDoor(principal nacre.Principal) error {
	return s.Listen(nacre.DoorSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return door.Serve(ctx, listener, door.Session{
			ID: s.ID(), Group: s.Group(), Principal: principal, PeerUID: s.peerUIDs(),
		}, watchedKernel{s}, door.Deps{
			Recorder: words{turning{s.Recorder, &s.turned}, s.runtime.redact}, Now: s.runtime.options.Now, NewID: randomHex, Redact: s.runtime.redactJSON,
		})
	})
}

// redactJSON takes secrets out of a document. What is no document goes nowhere.
func (r *Runtime) redactJSON(document []byte) ([]byte, []string) {
	clean, paths, err := r.redact.JSON(document)
	if err != nil {
		return []byte("null"), []string{"all of it: " + err.Error()}
	}
	return clean, paths
}

// peerUIDs are the host users that connections from inside come from (D-01).
func (s *sealed) peerUIDs() []uint32 {
	var uids []uint32
	for _, uid := range s.Sandbox().PeerUIDs() {
		uids = append(uids, uint32(uid))
	}
	return uids
}

func (s *sealed) serveEgress() error {
	options, err := s.credentialed(egress.Options{
		Rules: s.rules, Record: refusals{notice{s.Recorder, noticed(s.tell)}, s}, Propose: s.proposing(), Inspect: s.inspect, PassOpaque: s.trips.told, Session: s.ID(), Group: s.Group(), Now: s.runtime.options.Now,
	})
	if err != nil {
		return err
	}
	proxy, err := egress.New(options)
	if err != nil {
		return &ConfigError{err}
	}
	s.proposer.through(proxy)
	return s.Listen(nacre.EgressSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return proxy.Serve(ctx, watchedListener{listener, s})
	})
}

// posture computes what the session's agent may reach.
func (s *sealed) posture(in posture.Input) (nacre.Posture, error) { return s.postureWith(in, nil) }

// postureWith is posture with dependencies that were fetched: those that lie below
// the folder of a command, and those in the place of a toolchain's cache.
func (s *sealed) postureWith(in posture.Input, modules []verify.Module) (nacre.Posture, error) {
	in.Egress = s.rules
	in.Limits = s.runtime.config.Limits.over(in.Limits)
	if s.Sandbox().HostTools() {
		in.System, in.Toolchains = slices.Clone(s.found.system()), s.found.toolchains
	}
	in.Toolchains = shownCrates(shownModules(in.Toolchains, modules), modules)
	in.Mounts = append(slices.Clone(in.Mounts), moduleMounts(modules)...)
	if !in.Offline {
		in.Programs = s.runtime.programs()
		in.Mounts = append(slices.Clone(in.Mounts), s.trips.mounts...)
		in.Env = append(slices.Clone(in.Env), s.trips.decoys.Env...)
		env, err := s.leases.environment()
		if err != nil {
			return nacre.Posture{}, err
		}
		in.Env = append(env, in.Env...)
	}
	return posture.Compute(in)
}

// skills teach a brain the tools that its group may use (D-31).
func (s *sealed) skills(principal nacre.Principal) []brain.Skill {
	var core []nacre.Capability
	schedules := false
	for _, c := range s.kernel.Catalog(principal) {
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
	for _, skill := range s.pluginSkills() {
		var text strings.Builder
		for _, file := range skill.Files {
			text.WriteString(file.Text + "\n")
		}
		skills = append(skills, brain.Skill{Name: skill.Name, Markdown: text.String()})
	}
	return skills
}

// close ends everything of the session, in the order in which it depends on itself.
func (s *sealed) close(ctx context.Context, outcome string, finished bool) error {
	ctx = context.WithoutCancel(ctx)
	s.calls.end()
	s.awaitContainment()
	s.proposer.account()
	var errs []error
	s.closePlugins(ctx)
	if s.kernel != nil {
		errs = append(errs, s.waitForDrivers(ctx), s.pins.close())
	}
	quiet := s.rests(ctx)
	forgotten := s.closeMemory()
	if s.Session != nil {
		errs = append(errs, s.closeLeases(ctx), registry.Discard(filepath.Join(s.Dir(), packagesDir)), s.Close(ctx, outcome, finished))
	}
	s.asked.Wait()
	if s.calls.cancel != nil {
		s.calls.cancel()
	}
	err := errors.Join(append(errs, <-forgotten)...)
	s.rest(quiet)
	return err
}

// closeMemory closes the memory while the session closes. A call that comes from now
// on fails.
func (s *sealed) closeMemory() <-chan error {
	closed := make(chan error, 1)
	if err := s.remembered(); err != nil {
		closed <- nil // it never was open, and somebody was told
		return closed
	}
	go func() { closed <- s.memory.Close() }()
	return closed
}

// waitForDrivers lets what still runs for a call end before its chain does.
func (s *sealed) waitForDrivers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, driversLimit)
	defer cancel()
	return s.kernel.Wait(ctx)
}

func randomHex() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(raw[:])
}
