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
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/quiet"
	"github.com/nacre-dev/nacre/internal/receipt"
)

// errNotOpened is why there is no memory where nobody asked for it.
var errNotOpened = errors.New("the session ended before anything was called")

// calls is what an agent's calls reach: the memory, the plugins and the kernel over
// them. It is opened before anything runs: a memory that cannot be used stops the run,
// and what is wrong with plugins is told (M-01, D-45, D-23). Only where all of it was
// found whole and quiet before, and looks the same, a command does without until its
// agent calls; what is wrong by then ends the session.
type calls struct {
	words  []string      // that the operator typed
	ready  chan struct{} // closed when the session is open, and a call may come
	done   atomic.Bool
	ctx    context.Context //nolint:containedctx // of an opening and what it starts: the session's own, until it is closed
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	err   error
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
func (s *Session) openCalls() error {
	c := s.calls
	if c.done.Load() {
		return nil
	}
	select {
	case <-c.ready:
	case <-s.Context().Done():
		return context.Cause(s.Context())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done.Load(), c.err != nil:
		return c.err
	case c.ended:
		return errNotOpened
	}
	c.err = s.openLate(c.ctx)
	if c.err != nil && c.ctx.Err() == nil {
		s.Fail(c.err)
	}
	c.done.Store(c.err == nil)
	return c.err
}

// openLate opens at the first call what was quiet when the session began.
func (s *Session) openLate(ctx context.Context) error {
	s.Found.Plugins, s.Found.Err = access.PluginsOf(s.Inst, s.Group())
	s.remember(ctx, s.Group())
	if err := s.remembered(); err != nil {
		return err
	}
	return s.reachable(ctx, "")
}

// Reaches tells whether what its calls reach is open.
func (s *Session) Reaches() bool { return s.calls.done.Load() }

// reachable opens what stands on the memory and the plugins that were found.
func (s *Session) reachable(ctx context.Context, task string) error {
	if err := s.recordPurge(ctx); err != nil {
		return err
	}
	if err := s.openKernel(ctx); err != nil {
		return err
	}
	if err := s.Kernel.Observe(s.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, task); err != nil {
		return err
	}
	if err := observeWords(s); err != nil {
		return err
	}
	return resume(s)
}

// maxWords is how long the operator's words may be that are looked for in calls, in bytes.
// Beyond that a person is asked as if they had not been said.
const maxWords = 256 << 10

// observeWords tells the kernel what the operator typed: what calls take from there was
// not chosen by an outsider (K-26).
func observeWords(s *Session) error {
	text := strings.Join(s.calls.words, "\n")
	if text == "" || len(text) > maxWords {
		return nil
	}
	return s.Kernel.Observe(s.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the command"}, text)
}

// resume tells the kernel what the session had been told when its process was killed:
// what an outsider told it then stands in its home and its memory, and counts (M-52).
func resume(s *Session) error {
	chains := s.Chains()
	if !s.Resumed() || len(chains) < 2 {
		return nil
	}
	told, err := receipt.Told(s.Inst, chains[:len(chains)-1])
	if err != nil {
		return fmt.Errorf("what the session had been told before it was killed: %w", err)
	}
	return s.Kernel.Resume(s.Key(), told, "what was read before the session was resumed")
}

// reloadPlugin replaces a plugin of this session by what its folder is now.
func (s *Session) reloadPlugin(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-s.calls.ready:
	case <-ctx.Done():
		return errors.New("its plugins have not started yet")
	}
	if err := s.openCalls(); err != nil {
		return err
	}
	return s.plugins.Reload(ctx, name, s.Kernel.Replace)
}

// rests says what the next session may know of what this one found quiet, while its
// memory is still open.
func (s *Session) rests(ctx context.Context) quiet.State {
	if s.looks == "" || !s.plugins.Idle() {
		return quiet.State{}
	}
	until, err := s.Memory.Rests(ctx)
	if err != nil {
		return quiet.State{}
	}
	if most := s.Inst.Options.Now().Add(quiet.Longest); until.After(most) {
		until = most
	}
	return quiet.State{Looks: s.looks, Until: until}
}

// rest keeps that, once the memory is closed, where everything looks as it did before
// it was opened.
func (s *Session) rest(q quiet.State) {
	if q.Looks != "" && looksOf(s.Inst, s.Group()) == q.Looks {
		quiet.Keep(s.Inst, s.Group(), q)
	}
}

// looksOf is how what a call of the group can reach looks from outside.
func looksOf(inst *installation.Installation, group nacre.Group) string {
	return quiet.LooksOf(inst, group, access.LockFile(inst), access.Folders(inst))
}
