//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// startTimeout is how long building a sandbox may take.
const startTimeout = 20 * time.Second

// Start returns when the agent runs, or with the reason why it does not; an
// *ExecError when that is the command's own. Ending ctx kills the sandbox.
func (n *Native) Start(ctx context.Context, c Command) (Process, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	var err error
	if c.Posture.Mounts, err = HideSockets(c.Posture.Mounts); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	plan, err := n.newPlan(c)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	defer plan.close()
	p := &process{limits: c.Posture.Limits.WithDefaults(), done: make(chan struct{})}
	if p.first, err = n.launch(c, plan); err != nil {
		return nil, n.diagnose(err)
	}
	stop := context.AfterFunc(ctx, func() { p.end(endedByContext) })
	if err := p.release(plan.confined); err != nil {
		stop()
		err = p.failed(ctx, err)
		var own *ExecError
		if ctx.Err() != nil || errors.As(err, &own) {
			return nil, err
		}
		return nil, n.diagnose(err)
	}
	p.watch(stop)
	return p, nil
}

// diagnose looks, when a start failed, whether sandboxes can run here at all:
// a forbidden namespace says little where it fails.
func (n *Native) diagnose(err error) error {
	if problem := n.Check(); problem != nil {
		err = problem
	}
	if text := err.Error(); strings.HasPrefix(text, "sandbox: ") {
		return err
	}
	return fmt.Errorf("sandbox: %w", err)
}

// launch gives a PID 1 its plan, and puts it where limits hold while it builds
// its root: entering a group can take as long as that.
func (n *Native) launch(c Command, plan *plan) (*first, error) {
	f, err := n.take(c.Label)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		err = f.propose(plan.Plan, [3]*os.File{or(c.Stdin, null), or(c.Stdout, null), or(c.Stderr, null)}, plan.trees)
		_ = null.Close()
	}
	if settleErr := n.confine(f, c, plan); settleErr != nil {
		err = settleErr // which comes first
	}
	if err != nil {
		_ = f.process.Kill() // else it would wait for what does not come; what it has said can be read
		var report inside.Report
		if inside.Receive(f.control, &report) == nil && report.Error != "" { // it ended by itself, and this is why
			err = errors.New(printable(report.Error))
		}
		f.end()
		return nil, err
	}
	return f, nil
}

// confine waits until PID 1 has settled, and sets the limits of its groups.
func (n *Native) confine(f *first, c Command, plan *plan) error {
	<-f.settled
	if f.err != nil {
		return f.err
	}
	if err := f.name(n.options.StateDir, c.Label); err != nil {
		return err
	}
	limits := c.Posture.Limits.WithDefaults()
	if err := f.group.limit(limits); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	if !f.group.limitsMemory() {
		plan.confined.Data = uint64(limits.Memory)
	}
	return nil
}

func controlPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that deadlines work
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}

func or(f, otherwise *os.File) *os.File {
	if f != nil {
		return f
	}
	return otherwise
}
