//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// killTimeout is how long Kill waits for the last process to be gone.
const killTimeout = 10 * time.Second

// process is a running native sandbox.
type process struct {
	first  *first
	limits nacre.Limits
	timer  *time.Timer
	cause  atomic.Int32
	done   chan struct{}
	exit   Exit
	err    error
}

// Pid is the host's process id of PID 1.
func (p *process) Pid() int { return p.first.process.Pid }

// Wait returns when every process of the sandbox is gone. The error says that
// the sandbox broke, not that the command failed.
func (p *process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Kill ends the sandbox and returns when every process of it is gone.
func (p *process) Kill() error {
	p.end(endedByKill)
	select {
	case <-p.done:
		return nil
	case <-time.After(killTimeout):
		return fmt.Errorf("sandbox: still there %s after SIGKILL (pid %d)", killTimeout, p.Pid())
	}
}

// Freeze stops every process of the agent's.
func (p *process) Freeze() error { return inside.Say(p.first.control, inside.Freeze) }

// Thaw lets them go on.
func (p *process) Thaw() error { return inside.Say(p.first.control, inside.Thaw) }

// end kills PID 1, upon which the kernel kills the rest. The first cause counts.
func (p *process) end(cause int32) {
	p.cause.CompareAndSwap(0, cause)
	_ = p.first.process.Kill() // an error says that it has ended
}

// release lets the agent start and waits until it runs.
func (p *process) release(confined inside.Confined) error {
	sendErr := inside.Send(p.first.control, confined) // PID 1 may have ended, and said why
	var report inside.Report
	if err := inside.Receive(p.first.control, &report); err != nil {
		return fmt.Errorf("start: %w", errors.Join(sendErr, err))
	}
	if report.Exec {
		return &ExecError{printable(report.Error), syscall.Errno(report.Errno)}
	}
	if !report.Started {
		return errors.New(printable(report.Error))
	}
	return p.first.control.SetDeadline(time.Time{})
}

// failed ends what did not start, and says why.
func (p *process) failed(ctx context.Context, err error) error {
	log := p.first.end()
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	var execErr *ExecError
	if errors.As(err, &execErr) {
		return execErr
	}
	if log != "" {
		return fmt.Errorf("sandbox: %w: %s", err, log)
	}
	return fmt.Errorf("sandbox: %w", err)
}

// watch follows the sandbox to its end in a goroutine that Wait waits for.
func (p *process) watch(stop func() bool) {
	p.timer = time.AfterFunc(p.limits.Wall, func() { p.end(endedByWall) })
	go func() {
		defer close(p.done)
		var report inside.Report
		reportErr := inside.Receive(p.first.control, &report)
		_, _ = p.first.process.Wait() // how PID 1 itself ended is no news
		p.timer.Stop()
		stop()
		p.conclude(report, reportErr)
		p.first.clean()
	}()
}

func (p *process) conclude(report inside.Report, reportErr error) {
	cause := p.cause.Load()
	p.exit = Exit{OOM: p.first.group.killedForMemory()}
	switch {
	case reportErr == nil && report.Ended:
		p.exit.Code, p.exit.Signal = report.Code, syscall.Signal(report.Signal)
		if report.Signal != 0 {
			p.exit.Code = 128 + report.Signal
		}
		return
	case cause == 0 && !p.exit.OOM:
		p.err = errors.New("sandbox: " + cmp.Or(p.first.complaint(), "its first process was killed, and all that ran in it ended with that: whoever may kill your processes did so; look in the kernel's log, and run it again"))
	}
	p.exit.Signal, p.exit.Code = syscall.SIGKILL, 128+int(syscall.SIGKILL)
	p.exit.TimedOut = cause == endedByWall
	p.exit.Killed = cause == endedByKill || cause == endedByContext
}
