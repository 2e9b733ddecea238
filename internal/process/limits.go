package process

import (
	"context"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// userTime is how long a start waits until it is known whether this user still gets
// what a sandbox could take all of: a moment.
const userTime = 500 * time.Millisecond

// Keeper ends a sandbox that goes beyond a limit which no backend holds. Such limits are on what it
// prints, what it adds to the disk (M-12), and what it takes from this user (M-16).
type Keeper struct {
	Meter  *sandbox.Meter
	limits nacre.Limits

	mu      sync.Mutex
	process sandbox.Process
	why     string
	cancel  context.CancelFunc
	wait    sync.WaitGroup
}

// NewKeeper makes one for these limits. Close ends it.
func NewKeeper(limits nacre.Limits) *Keeper {
	g := &Keeper{limits: limits.WithDefaults(), cancel: func() {}}
	g.Meter = sandbox.NewMeter(g.limits.Output, func() {
		g.end("it printed more than " + sandbox.Bytes(g.limits.Output))
	})
	return g
}

// end kills the sandbox; the first reason counts.
func (g *Keeper) end(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == "" {
		g.why = why
		g.kill()
	}
}

// kill ends what is there, if it is there yet; its Wait reports what became of it.
func (g *Keeper) kill() {
	if p := g.process; p != nil {
		g.wait.Go(func() { _ = p.Kill() })
	}
}

// Count begins to watch the disk of a sandbox that is about to start, and what is
// left to this user. It returns once it knows what this user has, or after
// userTime: what another sandbox took before would be taken for this one's. For
// the disk nothing waits, however many files there are (P-02).
func (g *Keeper) Count(mounts []nacre.Mount) {
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	disk := sandbox.NewDiskWatch(mounts, g.limits.Disk)
	g.begin(func() string { return disk.Run(ctx) })
	looked := make(chan struct{})
	g.begin(func() string { return sandbox.WatchUser(ctx, func() { close(looked) }) })
	late := time.NewTimer(userTime)
	defer late.Stop()
	select {
	case <-looked:
	case <-late.C:
	}
}

// begin lets a watch run that says why the sandbox has to end.
func (g *Keeper) begin(watch func() string) {
	g.wait.Go(func() {
		if why := watch(); why != "" {
			g.end(why)
		}
	})
}

// Watch begins to keep a sandbox that has started.
func (g *Keeper) Watch(p sandbox.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process = p
	if g.why != "" {
		g.kill()
	}
}

// Close ends the keeper of a sandbox that has ended, and says why it was ended,
// or "". All that was printed has to have been read.
func (g *Keeper) Close() string {
	g.cancel()
	g.wait.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// LimitError is what a sandbox was ended for.
type LimitError struct{ Why string }

func (e LimitError) Error() string { return "the sandbox was ended: " + e.Why }
