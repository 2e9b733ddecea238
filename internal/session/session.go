// Package session is one sealed sandbox's lifetime, from open to close. It holds the session in the registry, makes its sockets, opens its
// audit chain, keeps its pending approvals and answers the control socket. It tears all of it down however the work ends. After Close
// nothing of the session runs.
//
// What is served on the sockets is handed in; the session imports no door, no
// proxy and no brain.
package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// closeLimit bounds the teardown; what is not done by then is ended.
const closeLimit = 10 * time.Second

// Options are what a session is opened with. All fields but Elsewhere, Attend, AskTTL, Directory, Prepare, Notify and Reload are required.
type Options struct {
	Registry *registry.Registry
	// Sandbox opens the backend, which keeps a record of what runs in stateDir.
	Sandbox func(stateDir string) (sandbox.Backend, error)
	// EndOrphans ends what a dead holder of stateDir left running, in any backend.
	EndOrphans func(stateDir string) ([]string, error)
	Keys       audit.Keys
	Now        func() time.Time
	Session    registry.Session
	// Elsewhere gives the second place of its chain; needed where the registry has a store.
	Elsewhere func(context.Context) (audit.Elsewhere, error)
	// Attend, where set, tells other machines that the session works here, as [Attend] says.
	Attend Attend
	// AskTTL is how long a person has to answer; zero means 5 minutes (D-13).
	AskTTL time.Duration
	// Prepare, where set, is given the session's folder once it is held, before
	// its work begins.
	Prepare func(dir string) error
	// Notify is told of each question as it is asked.
	Notify func(nacre.Question)
	// Directory gives the persons who may decide, as they are now. Without it nobody decides.
	Directory func() (person.Directory, error)
	// Reload, where set, replaces a plugin that the session runs. It may be called
	// from any goroutine, as soon as the session is open.
	Reload func(ctx context.Context, name nacre.PluginName) error
}

// Attend tells other machines that a session works. over is closed when they take it for lost, and end
// tells them what it came to.
type Attend func(ctx context.Context, s nacre.SessionStatus) (over <-chan struct{}, end func(context.Context, nacre.SessionStatus) error, err error)

// Serve answers one of the session's sockets until ctx ends.
type Serve func(ctx context.Context, listener *net.UnixListener) error

// Session is an open session.
type Session struct {
	// Recorder writes to the session's chain.
	Recorder nacre.Recorder
	// Approvals are the questions that wait for a person.
	Approvals *approval.Desk
	// Interruption is when what the session does is told to end.
	Interruption *Interruption
	hold
	chain   *audit.Chain
	floods  *audit.Aggregator
	ended   func(context.Context, nacre.SessionStatus) error // nil where nobody was told that it works
	sandbox sandbox.Backend
	now     func() time.Time
	room    string           // host folder of the sockets
	before  registry.Session // what was known before the opening's chain was named

	*lifetime

	mu        sync.Mutex
	processes map[sandbox.Process]func() // what waits until each was read
	failure   error
}

// hold is the session as the registry knows it, held by this process.
type hold struct {
	held    *registry.Held
	resumed bool
	// unsealed says that its chain may have been begun, and was not opened: the next start seals what is there.
	unsealed bool
}

// ErrStopped is why a session's context ends when somebody stops it.
var ErrStopped = errors.New("session was stopped")

// Open takes the session and makes its sockets and chain. Survivors of an
// earlier holder are ended first.
func Open(ctx context.Context, o Options) (*Session, error) {
	// The index stands before any session is named, so that none is missing where
	// nacre was killed in between.
	if err := audit.Begin(ctx, o.Registry.Paths().Audit(), o.Keys, o.Now()); err != nil {
		return nil, err
	}
	held, _, err := o.Registry.Take(o.Session)
	if err != nil {
		return nil, err
	}
	s := &Session{hold: hold{held: held, resumed: held.Work != ""}, now: o.Now, processes: map[sandbox.Process]func(){}}
	s.Interruption = &Interruption{session: s, begun: make(chan struct{})}
	s.lifetime = begin(context.WithoutCancel(ctx))
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx), "not opened", !s.resumed && !s.held.CarriedOn()))
	}
	return s, nil
}

func (s *Session) open(ctx context.Context, o Options) error {
	if _, err := o.EndOrphans(s.held.Dir()); err != nil {
		return fmt.Errorf("end what an earlier run left: %w", err)
	}
	if err := s.settleLeft(ctx, o); err != nil {
		return err
	}
	if err := s.openRoom(o); err != nil {
		return err
	}
	if err := s.openChain(ctx, o); err != nil {
		return err
	}
	if err := s.attend(ctx, o.Attend); err != nil {
		return err
	}
	s.Approvals = approval.New(approval.Options{
		Now: o.Now, TTL: o.AskTTL, Notify: o.Notify, Recorder: s.Recorder, Session: s.ID(), Group: s.held.Group,
		Directory: o.Directory, Store: o.Registry.Store(),
	})
	return s.serveControl(o.Reload)
}

// settleLeft removes the sockets of a dead holder, where nobody listens any more, and
// seals its chain.
func (s *Session) settleLeft(ctx context.Context, o Options) error {
	if s.held.Sockets != "" {
		_ = os.RemoveAll(s.held.Sockets) // what stays there is in nobody's way
	}
	return sealLeft(ctx, o, s.held)
}

// openRoom opens the backend and the folder for sockets, and names the opening's
// chain. A new session does both at once; work that goes on gets no further chain
// before its backend is there.
func (s *Session) openRoom(o Options) (err error) {
	if o.Prepare != nil {
		if err := o.Prepare(s.held.Dir()); err != nil {
			return err
		}
	}
	if s.room, err = o.Registry.Paths().SocketRoom(); err != nil {
		return err
	}
	named := sync.OnceValue(s.nameChain)
	if !s.resumed {
		go func() { _ = named() }()    // it is asked for below
		defer func() { _ = named() }() // which waits for it
	}
	if s.sandbox, err = o.Sandbox(s.held.Dir()); err != nil {
		if s.resumed {
			return err
		}
		return errors.Join(err, named(), s.unnameChain())
	}
	if err := os.Mkdir(s.SocketDir(), 0o700); err != nil {
		return err
	}
	return named()
}

// nameChain writes which chain this opening's will be, before it is there: whatever
// ends this process, the next start finds it.
func (s *Session) nameChain() error {
	return s.held.Update(func(h *registry.Session) {
		s.before = *h
		if h.Work == "" {
			h.Works++
			h.Work, h.Chains = registry.WorkName(h.ID, h.Works), nil
		}
		h.Openings++
		h.Chain = string(h.ID) + "." + strconv.Itoa(h.Openings)
		h.Chains = append(h.Chains, h.Chain)
		h.Sockets = s.room
	})
}

// unnameChain takes the name back of a chain that will not be.
func (s *Session) unnameChain() error {
	b := s.before
	return s.held.Update(func(h *registry.Session) {
		h.Works, h.Work, h.Openings, h.Chain, h.Chains, h.Sockets = b.Works, b.Work, b.Openings, b.Chain, b.Chains, b.Sockets
	})
}

// openChain begins a chain of this opening's own.
func (s *Session) openChain(ctx context.Context, o Options) error {
	options, err := ChainOptions(ctx, o, s.held.Chain)
	if err != nil {
		return err
	}
	chain, err := audit.Open(ctx, options)
	if err != nil {
		s.unsealed = true
		return err
	}
	s.chain = chain
	// An agent cannot fill its chain with refusals (D-16).
	s.floods, err = audit.NewAggregator(chain, s.now)
	s.Recorder = recorder{s.floods, s}
	return err
}

// ErrLost is why a session ends that other machines took for lost.
var ErrLost = errors.New("the store did not hear of this session for longer than a lease lasts, and other machines took it for lost")

// attend tells other machines that the session works, and ends it when they take it for lost.
func (s *Session) attend(ctx context.Context, attend Attend) error {
	if attend == nil {
		return nil
	}
	over, end, err := attend(ctx, s.held.SessionStatus)
	if err != nil {
		return err
	}
	s.ended = end
	go func() {
		select {
		case <-over:
			s.Fail(ErrLost)
		case <-s.ctx.Done():
		}
	}()
	return nil
}

// ChainOptions say where a chain is written: on the disk, and in the store of those who share one.
func ChainOptions(ctx context.Context, o Options, name string) (audit.Options, error) {
	options := audit.Options{Root: o.Registry.Paths().Audit(), Chain: name, Keys: o.Keys, Now: o.Now}
	if o.Elsewhere == nil {
		if o.Registry.Store() != nil {
			return options, errors.New("a session whose machines share a store has its chain there: set Options.Elsewhere")
		}
		return options, nil
	}
	var err error
	options.Elsewhere, err = o.Elsewhere(ctx)
	return options, err
}

// sealLeft closes the chain of an opening that was killed, so that it is proven
// to its last record from now on. One that was named, and killed before its chain was
// there, has none: whoever reads the chains of the work would look for it in vain.
func sealLeft(ctx context.Context, o Options, held *registry.Held) error {
	chain := held.Chain
	if chain == "" {
		return nil
	}
	if head, err := audit.ReadHead(o.Registry.Paths().Audit(), chain, o.Keys.Public()); err == nil && head.State == audit.HeadClosed {
		return nil
	}
	options, err := ChainOptions(ctx, o, chain)
	if err == nil {
		err = audit.Seal(ctx, options)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return held.Update(func(h *registry.Session) {
			h.Chain, h.Chains = "", slices.DeleteFunc(slices.Clone(h.Chains), func(name string) bool { return name == chain })
		})
	}
	if err != nil {
		return fmt.Errorf("seal the chain that an earlier run left: %w", err)
	}
	return nil
}

// recorder stamps every record with the session it belongs to, and stops the
// session when the chain can no longer be written.
type recorder struct {
	chain   nacre.Recorder
	session *Session
}

// Append implements nacre.Recorder.
func (r recorder) Append(ctx context.Context, rec nacre.Record) error {
	return r.write(ctx, rec, r.chain.Append)
}

// Commit implements nacre.Recorder.
func (r recorder) Commit(ctx context.Context, rec nacre.Record) error {
	return r.write(ctx, rec, r.chain.Commit)
}

// write keeps a record before what it tells of. What leaves a session that is held back waits, and the host has a refusal in its hands
// before the agent hears of it (M-65).
func (r recorder) write(ctx context.Context, rec nacre.Record, write func(context.Context, nacre.Record) error) error {
	if leaves(rec.Kind) {
		if err := r.session.Refusals.wait(ctx, r.session); err != nil {
			return err
		}
	}
	err := r.check(write(ctx, r.stamp(rec)))
	if reason, found := unauthorized(rec); found {
		r.session.Refusals.tell(reason)
		_ = r.session.Refusals.wait(ctx, r.session) // who waits no longer hears of a refusal all the same
	}
	return err
}

func (r recorder) stamp(rec nacre.Record) nacre.Record {
	rec.Session, rec.Group = r.session.held.ID, r.session.held.Group
	if rec.Time.IsZero() {
		rec.Time = r.session.now()
	}
	return rec
}

func (r recorder) check(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		r.session.Fail(fmt.Errorf("the audit chain cannot be written, so nothing may happen: %w", err))
	}
	return err
}

// Sandbox is the backend that the session's commands run in.
func (s *Session) Sandbox() sandbox.Backend { return s.sandbox }

// ID names the session.
func (h *hold) ID() nacre.SessionID { return h.held.ID }

// Key is what the kernel knows it by.
func (h *hold) Key() nacre.SessionKey {
	return nacre.KeyOf(h.held.Group, h.held.ID)
}

// Group is whose session it is.
func (h *hold) Group() nacre.Group { return h.held.Group }

// Dir is a folder on the host for what belongs to this session alone.
func (h *hold) Dir() string { return h.held.Dir() }

// Chains are the audit chains of the session's work, one an opening.
func (h *hold) Chains() []string { return h.held.Chains }

// Work names the session's current work, which is its durable workflow.
func (h *hold) Work() string { return h.held.Work }

// Resumed reports whether the session goes on with work that was interrupted.
func (h *hold) Resumed() bool { return h.resumed }

// CarriedOn tells whether whoever asked for the session has it opened again until its work is done.
func (h *hold) CarriedOn() bool { return h.held.CarriedOn() }

// Earlier are the chains of the openings of a session's work before this one; none where it
// did not go on with any.
func Earlier(s *Session) []string {
	chains := s.Chains()
	if !s.resumed || len(chains) == 0 {
		return nil
	}
	return chains[:len(chains)-1]
}

// SocketDir is the host folder that a sandbox sees as nacre.SocketDir.
func (s *Session) SocketDir() string { return filepath.Join(s.room, "door") }

// Context ends when the session is stopped or closed.
func (s *Session) Context() context.Context { return s.ctx }

// Update changes what the registry knows of the session.
func (h *hold) Update(change func(*registry.Session)) error { return h.held.Update(change) }

// Running says that what the session was opened for runs now.
func (h *hold) Running() error { return h.held.Running() }

// Listen serves one socket of the session until the session ends.
func (s *Session) Listen(socket string, serve Serve) error {
	if socket == nacre.DoorSocket {
		serve = s.Interruption.answering(serve)
	}
	return s.listen(filepath.Join(s.SocketDir(), socket), serve)
}

func (s *Session) listen(path string, serve Serve) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.served.Add(1)
	go func() {
		defer s.served.Done()
		if err := serve(s.ctx, listener); err != nil && s.ctx.Err() == nil {
			s.Fail(fmt.Errorf("serve %s: %w", filepath.Base(path), err))
		}
	}()
	return nil
}

// Start launches a command in the session's sandbox and records it.
func (s *Session) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, context.Cause(s.ctx)
	}
	c.Label = string(s.ID())
	if err := s.recordStart(ctx, c); err != nil {
		return nil, err
	}
	p, err := s.sandbox.Start(s.ctx, c)
	if err != nil {
		s.note(ctx, nacre.Record{Kind: nacre.KindSandboxExit, Outcome: "not started", Reason: err.Error()})
		return nil, err
	}
	s.mu.Lock()
	s.processes[p] = c.Drained
	s.mu.Unlock()
	return p, nil
}

// Wait waits for a process that Start gave and records how it ended.
func (s *Session) Wait(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() }) // Wait reports what became of it
	defer stop()
	exit, err := p.Wait()
	s.mu.Lock()
	drained := s.processes[p]
	delete(s.processes, p)
	s.mu.Unlock()
	if drained != nil {
		drained()
	}
	outcome := "exit " + strconv.Itoa(exit.Code)
	switch {
	case exit.TimedOut:
		outcome = "timed out"
	case exit.OOM:
		outcome += ", out of memory"
	}
	s.note(ctx, nacre.Record{Kind: nacre.KindSandboxExit, Outcome: outcome})
	return exit, err
}

// recordStart writes what the sandbox may reach before it starts: no record, no effect.
func (s *Session) recordStart(ctx context.Context, c sandbox.Command) error {
	posture, err := json.Marshal(c.Posture)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(posture)
	egress := make([]string, 0, len(c.Posture.Egress))
	for _, rule := range c.Posture.Egress {
		egress = append(egress, rule.String())
	}
	detail, err := json.Marshal(map[string]any{
		"backend": s.sandbox.Name(), "posture": hex.EncodeToString(digest[:]), "program": c.Argv[0],
		"arguments": len(c.Argv) - 1, "egress": egress, "not_enforced": s.sandbox.NotEnforced(), "mounts": mountTexts(c.Posture.Mounts),
	})
	if err != nil {
		return err
	}
	return s.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindSandboxStart, Outcome: s.sandbox.Name(), Detail: detail})
}

// mountTexts are what an auditor reads of a posture: what is visible, and how.
func mountTexts(mounts []nacre.Mount) []string {
	texts := make([]string, 0, len(mounts))
	for _, m := range mounts {
		text := m.Kind.String() + " " + m.Target
		if m.Source != "" && m.Source != m.Target {
			text += " = " + m.Source
		}
		texts = append(texts, text)
	}
	return texts
}

// Anchor commits a record and says how far the session's chain reaches with it.
func (s *Session) Anchor(ctx context.Context, r nacre.Record) (audit.Head, error) {
	if err := s.Recorder.Commit(ctx, r); err != nil {
		return audit.Head{}, err
	}
	return s.chain.Head(ctx)
}

// note records what is not an effect; the recorder itself stops the session if it fails.
func (s *Session) note(ctx context.Context, r nacre.Record) {
	_ = s.Recorder.Append(context.WithoutCancel(ctx), r)
}

// Stop ends what runs in the session at once. Close still has to be called by
// whoever opened it.
func (s *Session) Stop(why error) {
	s.cancel(why)
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.processes {
		_ = p.Kill() // its Wait reports what became of it
	}
}

// Fail ends the session for what went wrong with it.
func (s *Session) Fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.Stop(err)
}

// Failure is the first thing that went wrong with the session itself.
func (s *Session) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Close ends everything of the session and closes its chain. outcome is what
// the closing record says. Where finished is false the work stays unfinished,
// and the session's next opening goes on with it.
func (s *Session) Close(ctx context.Context, outcome string, finished bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	s.Stop(ErrStopped)
	var errs []error
	if s.Approvals != nil {
		errs = append(errs, s.Approvals.Close())
	}
	s.served.Wait()
	left := make(chan error, 1)
	go func() { left <- s.closeRoom() }()
	sealed, err := s.closeChain(ctx, outcome)
	errs = append(errs, err, <-left, s.held.Update(func(h *registry.Session) {
		if sealed {
			h.Chain = "" // else the next start seals it
		}
		h.Sockets, h.Finished, h.Outcome = "", s.now(), outcome
		h.Began = time.Time{} // who closes has looked what was planted
		h.State = nacre.SessionStopped
		if finished {
			h.State, h.Work = nacre.SessionDone, ""
		}
	}))
	if s.ended != nil {
		errs = append(errs, s.ended(ctx, s.held.SessionStatus))
	}
	if finished && !s.unsealed && errors.Join(errs...) == nil {
		errs = append(errs, s.held.Settled())
	}
	return errors.Join(append(errs, s.held.Release())...)
}

// closeRoom closes the backend, and removes the folder for sockets.
func (s *Session) closeRoom() error {
	var errs []error
	if s.room != "" {
		errs = append(errs, os.RemoveAll(s.room))
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Close())
	}
	return errors.Join(errs...)
}

// closeChain ends the session's own chain, and says whether it is proven to its end.
func (s *Session) closeChain(ctx context.Context, outcome string) (sealed bool, err error) {
	if s.chain == nil {
		return false, nil
	}
	held := s.floods.Close(ctx)
	// It is durable when the chain is closed, which waits for all there is.
	err = s.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindSessionClose, Source: "core", Outcome: outcome})
	closing := s.chain.Close(ctx)
	return closing == nil, errors.Join(held, err, closing)
}
