package seal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/internal/quiet"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/kernel"
)

// errNotOpened is why there is no memory where nobody asked for it.
var errNotOpened = errors.New("the session ended before anything was called")

// calls is what an agent's calls reach: the memory, the plugins and the kernel over
// them. It is opened before anything runs: a memory that cannot be used stops the run,
// and what is wrong with plugins is told (M-01, D-45, D-23). Only where all of it was
// found whole and quiet before, and looks the same, a command does without until its
// agent calls; what is wrong by then ends the session.
type calls struct {
	words  []string // that the operator typed
	kin    basis.Kin
	ready  chan struct{} // closed when the session is open, and a call may come
	done   atomic.Bool
	ctx    context.Context //nolint:containedctx // of an opening and what it starts: the session's own, until it is closed
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	err   error
}

// toolset is the memory, the plugins and the kernel over them, once calls has opened them.
type toolset struct {
	*basis.Basis
	project  string // the folder that the agent works on
	kind     string
	confined bool // by a role, to parts of the project

	calls  *calls
	Memory *memory.Store
	// remembered waits until the memory is open.
	remembered func() error
	Kernel     *kernel.Kernel
	plugins    *hosting.Plugins // nil until what its calls reach is open
	shared     *hosting.Shared
	pins       *pins.Pinner
	refusals   intrinsic.Refusals // what its door refused
	looks      string             // of all of it, before it was opened; empty where nobody keeps it
}

func newToolset(on *basis.Basis, req Request) *toolset {
	return &toolset{
		Basis: on, project: req.Project, kind: req.Kind, confined: req.Confined,
		calls: &calls{ready: make(chan struct{}), words: req.Words, kin: req.Kin}, shared: req.Shared,
		remembered: func() error { return errNotOpened },
	}
}

// end lets nothing be opened any more, and waits for an opening to end.
func (c *calls) end() {
	if !c.done.Load() && c.cancel != nil {
		c.cancel()
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
}

// openCalls opens what calls reach, where that is still to be done.
func (t *toolset) openCalls() error {
	c := t.calls
	if c.done.Load() {
		return nil
	}
	select {
	case <-c.ready:
	case <-t.Context().Done():
		return context.Cause(t.Context())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done.Load(), c.err != nil:
		return c.err
	case c.ended:
		return errNotOpened
	}
	c.err = t.openLate(c.ctx)
	if c.err != nil && c.ctx.Err() == nil {
		t.Fail(c.err)
	}
	c.done.Store(c.err == nil)
	return c.err
}

// openLate opens at the first call what was quiet when the session began.
func (t *toolset) openLate(ctx context.Context) error {
	t.Found.Plugins, t.Found.Err = access.PluginsOf(t.Inst, t.Group())
	t.remember(ctx, t.Group())
	if err := t.remembered(); err != nil {
		return err
	}
	return t.reachable(ctx, "")
}

// Reaches tells whether what its calls reach is open.
func (t *toolset) Reaches() bool { return t.calls.done.Load() }

// reachable opens what stands on the memory and the plugins that were found.
func (t *toolset) reachable(ctx context.Context, task string) error {
	if err := t.recordPurge(ctx); err != nil {
		return err
	}
	if err := t.openKernel(ctx); err != nil {
		return err
	}
	if h := t.calls.kin.Handed; h != nil {
		task = h.Principal.Justification // its own is an agent's words
		if err := t.Kernel.Resume(t.Key(), h.Told.And(nacre.Unvouched), "what its parent had been told"); err != nil {
			return err
		}
	}
	if err := t.Kernel.Observe(t.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, task); err != nil {
		return err
	}
	if err := t.observeWords(); err != nil {
		return err
	}
	return t.resume()
}

// maxWords is how long the operator's words may be that are looked for in calls, in bytes.
// Beyond that a person is asked as if they had not been said.
const maxWords = 256 << 10

// observeWords tells the kernel what the operator typed: what calls take from there was
// not chosen by an outsider (K-26).
func (t *toolset) observeWords() error {
	text := strings.Join(t.calls.words, "\n")
	if text == "" || len(text) > maxWords {
		return nil
	}
	return t.Kernel.Observe(t.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the command"}, text)
}

// resume tells the kernel what the session had been told when its process was killed:
// what an outsider told it then stands in its home and its memory, and counts (M-52).
func (t *toolset) resume() error {
	earlier := session.Earlier(t.Session)
	if len(earlier) == 0 {
		return nil
	}
	told, err := receipt.Told(t.Inst, earlier)
	if err != nil {
		return fmt.Errorf("what the session had been told before it was killed: %w", err)
	}
	ruled, err := receipt.Ruled(t.Inst, earlier)
	if err != nil {
		return fmt.Errorf("what was answered before the session was interrupted: %w", err)
	}
	return t.Kernel.Resume(t.Key(), told, "what was read before the session was resumed", ruled...)
}

// reloadPlugin replaces a plugin of this session by what its folder is now.
func (t *toolset) reloadPlugin(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-t.calls.ready:
	case <-ctx.Done():
		return errors.New("its plugins have not started yet")
	}
	if err := t.openCalls(); err != nil {
		return err
	}
	return t.plugins.Reload(ctx, name, t.Kernel.Replace)
}

// rests says what the next session may know of what this one found quiet, while its
// memory is still open.
func (t *toolset) rests(ctx context.Context) quiet.State {
	if t.looks == "" || !t.plugins.Idle() {
		return quiet.State{}
	}
	until, err := t.Memory.Rests(ctx)
	if err != nil {
		return quiet.State{}
	}
	if most := t.Inst.Options.Now().Add(quiet.Longest); until.After(most) {
		until = most
	}
	return quiet.State{Looks: t.looks, Until: until}
}

// rest keeps that, once the memory is closed, where everything looks as it did before
// it was opened.
func (t *toolset) rest(q quiet.State) {
	if q.Looks != "" && looksOf(t.Inst, t.Group()) == q.Looks {
		quiet.Keep(t.Inst, t.Group(), q)
	}
}

// looksOf is how what a call of the group can reach looks from outside.
func looksOf(inst *installation.Installation, group nacre.Group) string {
	return quiet.LooksOf(inst, group, access.LockFile(inst), access.Folders(inst))
}
