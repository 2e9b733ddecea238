// Package doorway is the door of a sealed session, and what stands between it and the kernel. Each
// call is looked through for decoys, and a sub-agent's needs its token. What calls reach is opened
// with the first of them where it rested.
package doorway

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/folders"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/tripwire"
	"github.com/nacre-dev/nacre/internal/watch"
	"github.com/nacre-dev/nacre/kernel"
)

// errEnded is why nothing is opened any more.
var errEnded = errors.New("the session ended before anything was called")

// Doorway is a session's door. What its agent's calls reach is opened before anything runs: a memory
// that cannot be used stops the run, and what is wrong with plugins is told (M-01, D-45, D-23). A
// command does without until its agent calls only where all of it was found whole and quiet before,
// and looks the same. What is wrong by then ends the session.
type Doorway struct {
	on     *basis.Basis
	asked  *folders.Folders
	kin    basis.Kin
	open   func(context.Context) error
	kernel func() *kernel.Kernel
	watch  *watch.Watch

	ready  chan struct{} // closed when the session is open, and a call may come
	done   atomic.Bool
	ctx    context.Context //nolint:containedctx // of an opening and what it starts: the session's own, until it is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	ended  bool
	err    error
	taints []string // of what is told once it is open
}

// New is the door of a session, which opens what calls reach by what it is given, if that is not
// open by the first of them. The kernel is there once that was opened.
func New(on *basis.Basis, project string, kin basis.Kin, open func(context.Context) error, kernel func() *kernel.Kernel) *Doorway {
	asked := folders.New(on.Inst, project, on.Warn)
	on.Folders = asked
	return &Doorway{on: on, asked: asked, kin: kin, open: open, kernel: kernel, ready: make(chan struct{})}
}

// Begin follows the open session, until Cancel, and looks at calls with what watches over it.
func (d *Doorway) Begin(w *watch.Watch) {
	d.watch = w
	d.asked.Follow(d.on.Session)
	d.ctx, d.cancel = context.WithCancel(d.on.Context())
}

// Ready lets calls come. What they reach is open already, or is opened with the first of them.
func (d *Doorway) Ready(open bool) {
	d.done.Store(open)
	close(d.ready)
}

// Reaches tells whether what calls reach is open.
func (d *Doorway) Reaches() bool { return d.done.Load() }

// Open opens what calls reach, where that is still to be done.
func (d *Doorway) Open() error {
	if d.done.Load() {
		return nil
	}
	select {
	case <-d.ready:
	case <-d.on.Context().Done():
		return context.Cause(d.on.Context())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.done.Load(), d.err != nil:
		return d.err
	case d.ended:
		return errEnded
	}
	d.err = d.open(d.ctx)
	for _, by := range d.taints {
		if d.err == nil {
			d.err = d.kernel().Taint(d.on.Key(), by)
		}
	}
	if d.err != nil && d.ctx.Err() == nil {
		d.on.Fail(d.err)
	}
	d.done.Store(d.err == nil)
	return d.err
}

// Taint says that the agent begins with what an outsider may have written, which by names. Where
// what calls reach is not open, the kernel is told before anything is asked of it.
func (d *Doorway) Taint(by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done.Load() {
		return d.kernel().Taint(d.on.Key(), by)
	}
	d.taints = append(d.taints, by)
	return d.err
}

// OpenFrom is Open for one who may come before the session is open.
func (d *Doorway) OpenFrom(ctx context.Context) error {
	select {
	case <-d.ready:
		return d.Open() //nolint:contextcheck // what is opened lives as long as the session
	case <-ctx.Done():
		return errors.New("its plugins have not started yet")
	}
}

// End lets nothing be opened any more, and waits for an opening to end.
func (d *Doorway) End() {
	if !d.done.Load() {
		d.Cancel()
	}
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
}

// Cancel ends what an opening started and what it left to run.
func (d *Doorway) Cancel() {
	if d.cancel != nil {
		d.cancel()
	}
}

// Serve answers the session's door for a principal. What it refused is remembered.
func (d *Doorway) Serve(principal nacre.Principal, refused *intrinsic.Refusals) error {
	on := d.on
	return on.Listen(nacre.DoorSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return door.Serve(ctx, listener, door.Session{
			ID: on.ID(), Group: on.Group(), Principal: principal, PeerUID: d.peerUIDs(),
		}, d, door.Deps{
			Recorder: installation.Words{Recorder: refused.Of(on.Recorder), Redact: on.Inst.Redact}, Now: on.Inst.Options.Now, NewID: installation.RandomHex,
			Redact:   func(document []byte) ([]byte, []string) { return installation.RedactJSON(on.Inst, document) },
			Sanitize: installation.Sanitize, Closing: on.Interruption.Begun(),
			Answer: func() time.Duration { return on.Inst.Config.Limits.IPC(d.slowest(principal)) },
		})
	})
}

// slowest is how long the slowest tool that a principal may call has for a call, as far as
// tools are known: a door that rests leads to no plugin's.
func (d *Doorway) slowest(principal nacre.Principal) (most time.Duration) {
	if !d.Reaches() {
		return 0
	}
	for _, c := range d.kernel().Catalog(principal) {
		most = max(most, c.Deadline)
	}
	return most
}

// peerUIDs are the host users that connections from inside come from (D-01).
func (d *Doorway) peerUIDs() []uint32 {
	var uids []uint32
	for _, uid := range d.on.Sandbox().PeerUIDs() {
		uids = append(uids, uint32(uid)) //nolint:gosec // a user id
	}
	return uids
}

// Has implements door.Kernel.
func (d *Doorway) Has(tool nacre.ToolName) bool { return d.Open() == nil && d.kernel().Has(tool) }

// Source implements door.Kernel.
func (d *Doorway) Source(tool nacre.ToolName) string {
	if d.Open() != nil {
		return ""
	}
	return d.kernel().Source(tool)
}

// Call implements door.Kernel.
func (d *Doorway) Call(ctx context.Context, call nacre.Call) (nacre.Outcome, error) {
	if d.watch.Seen(call.Arguments, tripwire.InCall) && d.watch.Containment() != nil { //nolint:contextcheck // an alarm is recorded whatever becomes of the call
		return nacre.Outcome{}, watch.ErrContained
	}
	if err := d.Open(); err != nil { //nolint:contextcheck // what is opened lives as long as the session
		return nacre.Outcome{}, err
	}
	if err := d.kin.Holds(ctx, d.on, call); err != nil {
		return nacre.Outcome{}, err
	}
	return d.kernel().Call(ctx, call)
}
