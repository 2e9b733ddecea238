package session

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	// DrainLimit is how long calls in flight may take to be answered once nacre is told
	// to end (D-24), whatever their own deadlines.
	DrainLimit = 30 * time.Second
	// drainQuiet is how long that may take before anybody is told what is waited for.
	drainQuiet = time.Second
)

// errDrained ends the calls that were not answered in that time.
var errDrained = errors.New("nacre ended before the call was answered")

// lifetime is a session's own: ended by Stop and Close, not by one caller.
type lifetime struct {
	ctx    context.Context //nolint:containedctx // as above
	cancel context.CancelCauseFunc
	served sync.WaitGroup
	// Refusals are the calls that policy refused, and what they hold back.
	Refusals Refusals
}

func begin(ctx context.Context) *lifetime {
	var l lifetime
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return &l
}

// Interruption is when what a session does is told to end, and its calls in flight are
// still answered. Its methods may be called concurrently.
type Interruption struct {
	session *Session
	once    sync.Once
	begun   chan struct{}

	mu     sync.Mutex
	end    context.CancelCauseFunc
	served chan struct{}
}

// Begun is closed when no call is taken any more.
func (i *Interruption) Begun() <-chan struct{} { return i.begun }

// answering knows when the door has answered its last call.
func (i *Interruption) answering(serve Serve) Serve {
	served := make(chan struct{})
	i.mu.Lock()
	i.served = served
	i.mu.Unlock()
	return func(ctx context.Context, listener *net.UnixListener) error {
		defer close(served)
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		i.mu.Lock()
		i.end = end
		i.mu.Unlock()
		return serve(ctx, listener)
	}
}

// drain returns when the last call is answered, and ends those that take too long.
func (i *Interruption) drain() {
	i.mu.Lock()
	served := i.served
	i.mu.Unlock()
	if served == nil {
		return // nobody can call yet
	}
	late := time.AfterFunc(DrainLimit, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.end != nil {
			i.end(errDrained)
		}
	})
	defer late.Stop()
	<-served
}

// Context is that of what the session does for somebody. When theirs ends, no call is taken any
// more, questions end, and what is in flight is answered before it ends as well (F-62). Nothing is
// waited for once the session is stopped. tell hears of a wait that is noticed.
func (i *Interruption) Context(ctx context.Context, tell func(nacre.Step)) context.Context {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		noticed := time.AfterFunc(drainQuiet, func() {
			tell(nacre.Step{Kind: nacre.StepStage, Name: "calls", Text: "waits for the calls in flight, for at most " + DrainLimit.String()})
		})
		i.once.Do(func() { close(i.begun) }) // before a question ends: its caller may end with it
		_ = i.session.Approvals.Close()      // it has nothing that could fail
		i.drain()
		noticed.Stop()
		end(context.Cause(ctx))
	})
	context.AfterFunc(i.session.ctx, func() { stop() })
	return work
}
