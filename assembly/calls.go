package assembly

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
)

// errNotOpened is why there is no memory where nobody asked for it.
var errNotOpened = errors.New("the session ended before anything was called")

// calls is what an agent's calls reach: the memory, the plugins and the kernel over
// them. It is opened before anything runs: a memory that cannot be used stops the run,
// and what is wrong with plugins is told (M-01, D-45, D-23). Only where all of it was
// found whole and quiet before, and looks the same, a command does without until its
// agent calls; what is wrong by then ends the session.
type calls struct {
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
func (s *sealed) openCalls() error {
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
func (s *sealed) openLate(ctx context.Context) error {
	s.found.plugins, s.found.err = s.runtime.pluginsOf(s.Group())
	s.remember(ctx, s.Group())
	if err := s.remembered(); err != nil {
		return err
	}
	return s.reachable(ctx, "")
}

// reachable opens what stands on the memory and the plugins that were found.
func (s *sealed) reachable(ctx context.Context, task string) error {
	if err := s.recordPurge(ctx); err != nil {
		return err
	}
	if err := s.openKernel(ctx); err != nil {
		return err
	}
	return s.kernel.Observe(s.ID(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, task)
}

// rests says what the next session may know of what this one found quiet, while its
// memory is still open.
func (s *sealed) rests(ctx context.Context) quiet {
	if s.looks == "" || !s.idle {
		return quiet{}
	}
	until, err := s.memory.Rests(ctx)
	if err != nil {
		return quiet{}
	}
	if most := s.runtime.options.Now().Add(quietFor); until.After(most) {
		until = most
	}
	return quiet{Looks: s.looks, Until: until}
}

// rest keeps that, once the memory is closed, where everything looks as it did before
// it was opened.
func (s *sealed) rest(q quiet) {
	if q.Looks != "" && s.runtime.looks(s.Group()) == q.Looks {
		s.runtime.keepQuiet(s.Group(), q)
	}
}
