package assembly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// kindLimit records that a sandbox went beyond a limit, and was ended for it.
const kindLimit nacre.Kind = "sandbox.limit"

// mebibyte is the unit of the limits in the config.
const mebibyte = 1 << 20

// maxConfigured is the largest limit of the config, in its own unit.
const maxConfigured = 1 << 40

// LimitsConfig are the operator's limits of every sandbox, where they are not
// the default (M-12). Zero means the default.
type LimitsConfig struct {
	// OutputMiB is what stdout and stderr may carry together.
	OutputMiB int64 `toml:"output_mib"`
	// DiskMiB is what a sandbox may add to what it may write.
	DiskMiB int64 `toml:"disk_mib"`
	// CPUMillicores are thousandths of a core for all of a sandbox.
	CPUMillicores int `toml:"cpu_millicores"`
	// MemoryMiB is for all of a sandbox.
	MemoryMiB int64 `toml:"memory_mib"`
}

func (l LimitsConfig) check() error {
	for name, n := range map[string]int64{
		"output_mib": l.OutputMiB, "disk_mib": l.DiskMiB, "cpu_millicores": int64(l.CPUMillicores), "memory_mib": l.MemoryMiB,
	} {
		if n < 0 || n > maxConfigured {
			return fmt.Errorf("[limits] %s = %d: use a number from 1 to %d", name, n, int64(maxConfigured))
		}
	}
	return nil
}

// over fills in what limits leave open.
func (l LimitsConfig) over(limits nacre.Limits) nacre.Limits {
	if limits.Output == 0 {
		limits.Output = l.OutputMiB * mebibyte
	}
	if limits.Disk == 0 {
		limits.Disk = l.DiskMiB * mebibyte
	}
	if limits.CPU == 0 {
		limits.CPU = l.CPUMillicores
	}
	if limits.Memory == 0 {
		limits.Memory = l.MemoryMiB * mebibyte
	}
	return limits
}

// countTime is how long a start waits until what the sandbox may write is counted:
// a small tree always is, and a big one does not hold up the start.
const countTime = 500 * time.Millisecond

// keeper ends a sandbox that goes beyond a limit which no backend holds: what it
// prints, what it adds to the disk (M-12), and what it takes from this user (M-16).
type keeper struct {
	meter  *sandbox.Meter
	limits nacre.Limits

	mu      sync.Mutex
	process sandbox.Process
	why     string
	cancel  context.CancelFunc
	wait    sync.WaitGroup
}

func newKeeper(limits nacre.Limits) *keeper {
	g := &keeper{limits: limits.WithDefaults(), cancel: func() {}}
	g.meter = sandbox.NewMeter(g.limits.Output, func() {
		g.end("it printed more than " + sandbox.Bytes(g.limits.Output))
	})
	return g
}

// end kills the sandbox; the first reason counts.
func (g *keeper) end(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == "" {
		g.why = why
		g.kill()
	}
}

// kill ends what is there, if it is there yet; its Wait reports what became of it.
func (g *keeper) kill() {
	if p := g.process; p != nil {
		g.wait.Go(func() { _ = p.Kill() })
	}
}

// count begins to watch the disk of a sandbox that is about to start, and what is
// left to this user, and returns once it knows what is there, or after countTime:
// what a sandbox wrote or took before it was counted would be taken for the host's.
func (g *keeper) count(mounts []nacre.Mount) {
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	late := time.NewTimer(countTime)
	defer late.Stop()
	disk := g.begin(func(counted func()) string { return sandbox.WatchDisk(ctx, mounts, g.limits.Disk, counted) })
	user := g.begin(func(looked func()) string { return sandbox.WatchUser(ctx, looked) })
	for _, counted := range []<-chan struct{}{disk, user} {
		select {
		case <-counted:
		case <-late.C:
			return
		}
	}
}

// begin lets a watch run that says why the sandbox has to end. What it returns is
// closed once the watch knows what is there at the beginning.
func (g *keeper) begin(watch func(counted func()) string) <-chan struct{} {
	counted := make(chan struct{})
	g.wait.Go(func() {
		if why := watch(func() { close(counted) }); why != "" {
			g.end(why)
		}
	})
	return counted
}

// watch begins to keep a sandbox that has started.
func (g *keeper) watch(p sandbox.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process = p
	if g.why != "" {
		g.kill()
	}
}

// close ends the keeper of a sandbox that has ended, and says why it was ended,
// or "". All that was printed has to have been read.
func (g *keeper) close() string {
	g.cancel()
	g.wait.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// noteLimit records and tells that a sandbox was ended for a limit. The
// recorder itself stops the session where it fails.
func (s *sealed) noteLimit(ctx context.Context, why string) {
	if why == "" {
		return
	}
	_ = s.Recorder.Commit(context.WithoutCancel(ctx), nacre.Record{Kind: kindLimit, Source: "core", Outcome: "ended", Reason: why})
	s.warn(nacre.Step{Kind: nacre.StepResult, Name: "limit", Text: "the sandbox was ended: " + why, IsError: true})
}

// errLimit is what a sandbox was ended for.
type errLimit struct{ why string }

func (e errLimit) Error() string { return "the sandbox was ended: " + e.why }
