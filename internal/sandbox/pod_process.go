package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

const (
	// podStartTimeout is how long a pod may take to run its agent, the snapshot included.
	podStartTimeout = 5 * time.Minute
	// returnTimeout is how long what the agent wrote may take to come back when the
	// sandbox is ended from outside. What is not there by then is lost.
	returnTimeout = 30 * time.Second
	// podKillTimeout is how long Kill waits for the pod to be gone.
	podKillTimeout = 2 * returnTimeout
)

// podProcess is a running program, which has one sandbox in a pod.
type podProcess struct {
	program   *exec.Cmd
	complaint limited
	control   net.Conn
	timer     *time.Timer
	running   atomic.Bool // the agent does
	cause     atomic.Int32
	ending    sync.Once
	done      chan struct{}
	podResult
}

// podResult is how a sandbox ended, once done is closed.
type podResult struct {
	exit Exit
	err  error
}

// Start implements Backend.
func (b *Pods) Start(ctx context.Context, c Command) (Process, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if c.Terminal {
		return nil, errors.New("sandbox: a pod has no terminal: give the command its input from a file or a pipe, or use the native sandbox ([sandbox] backend = \"native\")")
	}
	if c.Network != nil {
		return nil, errors.New("sandbox: ports of a pod cannot be reached: use the native sandbox for it ([sandbox] backend = \"native\")")
	}
	order, err := newPodOrder(b.options, c)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	p := &podProcess{complaint: limited{most: maxComplaint}, done: make(chan struct{})}
	if err := p.launch(b.options.Program, c); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { p.end(endedByContext) })
	if err := p.begin(order); err != nil {
		stop()
		return nil, p.failed(ctx, err)
	}
	p.timer = time.AfterFunc(c.Posture.Limits.WithDefaults().Wall, func() { p.end(endedByWall) })
	p.running.Store(true)
	go p.watch(stop)
	return p, nil
}

// launch starts the program in a process group of its own: what a person presses is
// nacre's to answer.
func (p *podProcess) launch(program string, c Command) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer func() { _, _ = ours.Close(), theirs.Close() }() // each has its own copy
	if p.control, err = net.FileConn(ours); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, p.control.Close())
	}
	defer func() { _ = null.Close() }()                // nothing is in it
	p.program = exec.Command(program, inside.PodStart) //nolint:noctx // it brings back what was written when the context ends
	p.program.Stderr = &p.complaint
	p.program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.program.ExtraFiles = []*os.File{theirs, orNull(c.Stdin, null), orNull(c.Stdout, null), orNull(c.Stderr, null)}
	if err := p.program.Start(); err != nil {
		return errors.Join(err, p.control.Close())
	}
	return nil
}

func orNull(f, null *os.File) *os.File {
	if f == nil {
		return null
	}
	return f
}

// begin hands over the order, and waits until the agent runs.
func (p *podProcess) begin(order inside.PodOrder) error {
	if err := p.control.SetDeadline(time.Now().Add(podStartTimeout)); err != nil {
		return err
	}
	if err := inside.Send(p.control, order); err != nil {
		return err
	}
	var report inside.Report
	if err := inside.Receive(p.control, &report); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	switch {
	case report.Exec:
		return &ExecError{Message: printable(report.Error), Err: syscall.Errno(report.Errno)}
	case !report.Started:
		return errors.New(printable(report.Error))
	}
	return p.control.SetDeadline(time.Time{})
}

// failed ends what did not start, and says why.
func (p *podProcess) failed(ctx context.Context, err error) error {
	_ = p.control.Close() // upon which the program gives back what it took
	_ = p.program.Wait()  // how it ended is no news
	var execErr *ExecError
	if errors.As(err, &execErr) {
		return execErr
	}
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	if text := p.complaint.String(); text != "" {
		return fmt.Errorf("sandbox: %w: %s", err, text)
	}
	return fmt.Errorf("sandbox: %w", err)
}

// watch follows the sandbox to its end.
func (p *podProcess) watch(stop func() bool) {
	defer close(p.done)
	var report inside.Report
	reportErr := inside.Receive(p.control, &report)
	p.timer.Stop()
	stop()
	_ = p.control.Close() // which ends the program, if it has not
	_ = p.program.Wait()  // how it ended is no news
	p.conclude(report, reportErr)
}

func (p *podProcess) conclude(report inside.Report, reportErr error) {
	cause := p.cause.Load()
	ended := reportErr == nil && report.Ended
	if ended {
		p.exit.Code, p.exit.Signal = report.Code, syscall.Signal(report.Signal)
	} else {
		p.exit.Signal = syscall.SIGKILL
	}
	if p.exit.Signal != 0 {
		p.exit.Code = 128 + int(p.exit.Signal)
	}
	if p.exit.Signal == syscall.SIGKILL {
		p.exit.TimedOut = cause == endedByWall
		p.exit.Killed = cause == endedByKill || cause == endedByContext
	}
	switch {
	case report.Error != "":
		p.err = fmt.Errorf("sandbox: %s", printable(report.Error))
	case !ended && cause == 0:
		p.err = fmt.Errorf("sandbox: nacre-k8s ended without a report: %s", p.complaint.String())
	case !ended:
		p.err = errors.New("sandbox: it was ended, and what its agent had written did not come back")
	}
}

// Pid is the program's: the agent's own processes are on another machine.
func (p *podProcess) Pid() int { return p.program.Process.Pid }

// Wait implements Process.
func (p *podProcess) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Kill implements Process.
func (p *podProcess) Kill() error {
	p.end(endedByKill)
	select {
	case <-p.done:
		return nil
	case <-time.After(podKillTimeout):
		return errors.New("sandbox: the pod is still there: its claim ends by itself (kubectl get sandboxclaims)")
	}
}

// Freeze implements Process.
func (p *podProcess) Freeze() error { return inside.Say(p.control, inside.Freeze) }

// Thaw implements Process.
func (p *podProcess) Thaw() error { return inside.Say(p.control, inside.Thaw) }

// end kills the agent, and lets the program bring back what it wrote. The first cause
// counts. Before the agent runs, and after returnTimeout, the program is left alone, upon
// which it ends.
func (p *podProcess) end(cause int32) {
	p.cause.CompareAndSwap(0, cause)
	p.ending.Do(func() {
		if !p.running.Load() || inside.Say(p.control, inside.End) != nil {
			_ = p.control.Close()
			return
		}
		time.AfterFunc(returnTimeout, func() { _ = p.control.Close() })
	})
}
