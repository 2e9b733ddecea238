package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

// process is a running container.
type process struct {
	backend *Backend
	boot    bootDir
	limits  nacre.Limits
	streams *streams
	link
	exited chan struct{} // closed when the engine says that the container has ended
	forget context.CancelFunc
	tell   sync.WaitGroup // for exited
	pid    int
	timer  *time.Timer
	cause  atomic.Int32
	ending sync.Once
	ended  chan struct{} // closed when it is ended from outside
	done   chan struct{}
	result
}

// link leads to PID 1.
type link struct {
	control io.ReadWriteCloser
	far     *far // nil where PID 1 dials a socket of this machine
}

// result is how a container ended, once done is closed.
type result struct {
	exit sandbox.Exit
	err  error
}

// why a container was ended from outside.
const (
	endedByWall int32 = iota + 1
	endedByKill
	endedByContext
	endedByPipe // nobody reads what it writes
)

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if c.Network != nil && (b.isolated() || b.options.Apart) {
		return nil, loopback.ErrNone
	}
	p := &process{
		backend: b, limits: c.Posture.Limits.WithDefaults(), exited: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}), forget: func() {},
	}
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the engine took too long"))
	defer cancel()
	if err := p.start(starting, c); err != nil {
		return nil, p.failed(starting, err)
	}
	stop := context.AfterFunc(ctx, func() { p.end(endedByContext) })
	p.timer = time.AfterFunc(p.limits.Wall, func() { p.end(endedByWall) })
	p.streams.copy(func() { p.end(endedByPipe) })
	go p.watch(stop)
	return p, nil
}

func (p *process) start(ctx context.Context, c sandbox.Command) error {
	uid, gid := p.backend.mapper.AgentIDs()
	var err error
	if p.boot, err = newBoot(p.backend.options, "nacre-"+c.Label+"-"+randomHex(), uid, gid); err != nil {
		return err
	}
	mounts, err := sandbox.HideSockets(c.Posture.Mounts)
	if err != nil {
		return err
	}
	shown := len(c.Posture.Mounts)
	c.Posture.Mounts = mounts
	layout, err := newLayout(c, p.boot, p.backend.options)
	if err != nil {
		return err
	}
	defer layout.sources.Close()
	if p.backend.isGVisor() && len(mounts) > shown { // it ends when a file is mounted over a socket
		return fmt.Errorf("the host has a socket open at %s, which gVisor cannot hide: end what has it open, or bind what is needed without it", mounts[shown].Target)
	}
	if err := p.backend.image.coverVolumes(layout); err != nil {
		return err
	}
	work, err := p.backend.work(c, layout)
	if err != nil {
		return err
	}
	if err := p.boot.write(c.Label, p.backend.options.Socket); err != nil {
		return err
	}
	paths, err := layout.stage(p.backend.mapper, p.boot.name)
	if err != nil {
		return err
	}
	if err := p.backend.checkPaths(paths); err != nil {
		return err
	}
	if err := p.launch(ctx, c, p.backend.creation(c, layout, paths)); err != nil {
		return err
	}
	if p.far != nil {
		err = p.handshakeFar(ctx, c, layout, work)
	} else {
		err = p.handshake(ctx, work, c.Network)
	}
	if err != nil {
		return err
	}
	return unstage(p.boot.name)
}

// launch makes the container, takes hold of its streams and its end, and starts it.
func (p *process) launch(ctx context.Context, c sandbox.Command, o creation) error {
	engine, name := p.backend.engine, p.boot.name
	if err := engine.create(ctx, o); err != nil {
		return err
	}
	apart := p.backend.options.Apart
	attached, err := engine.attach(ctx, name, c.Stdin != nil || apart)
	if err != nil {
		return err
	}
	resize := func(height, width uint) {
		_ = engine.resize(context.WithoutCancel(ctx), name, height, width) // the old size is still a size
	}
	if apart {
		if p.far, err = openFar(context.WithoutCancel(ctx), attached, c.SocketDir); err != nil {
			return errors.Join(err, attached.Close())
		}
		if attached, err = p.far.agent(); err != nil {
			return err
		}
		if resize, err = p.far.sizes(); err != nil {
			return err
		}
	}
	if p.streams, err = newStreams(c, attached, resize); err != nil {
		return err
	}
	if err := engine.start(ctx, name); err != nil {
		return err
	}
	p.awaitExit()
	return nil
}

// awaitExit closes exited when the container has ended.
func (p *process) awaitExit() {
	ctx, cancel := context.WithCancel(context.Background())
	p.forget = cancel
	p.tell.Go(func() {
		_ = p.backend.engine.wait(ctx, p.boot.name) // that the engine is gone, or has forgotten it, is an end too
		close(p.exited)
	})
}

// handshake waits for PID 1, hands it its work and waits until the agent runs.
func (p *process) handshake(ctx context.Context, work inside.Container, network *loopback.Network) error {
	stop := context.AfterFunc(ctx, func() { _ = p.boot.listener.Close() })
	defer stop()
	early := make(chan struct{})
	p.tell.Go(func() {
		select {
		case <-p.exited:
			_ = p.boot.listener.Close() // it will not come any more
		case <-early:
		}
	})
	defer close(early)
	control, err := p.boot.listener.AcceptUnix()
	if err != nil {
		return errors.New("the container ended before it started its agent")
	}
	p.control = control
	_ = p.boot.listener.Close() // what comes later is the agent
	deadline, _ := ctx.Deadline()
	if err := control.SetDeadline(deadline); err != nil {
		return err
	}
	if err := sendWork(control, work, network); err != nil {
		return err
	}
	if err := p.hear(ctx); err != nil {
		return err
	}
	return control.SetDeadline(time.Time{})
}

// hear waits for PID 1 to say that the agent runs.
func (p *process) hear(ctx context.Context) error {
	var report inside.Report
	if err := inside.Receive(p.control, &report); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if report.Exec {
		return &sandbox.ExecError{Message: printable(report.Error), Err: syscall.Errno(report.Errno)}
	}
	if !report.Started {
		return errors.New(printable(report.Error))
	}
	p.pid = p.hostPid(ctx)
	return nil
}

// hostPid is for people; zero where the engine does not say it.
func (p *process) hostPid(ctx context.Context) int {
	c, err := p.backend.engine.inspect(ctx, p.boot.name)
	if err != nil || c.State == nil {
		return 0
	}
	return c.State.Pid
}

// failed removes what did not start, and says why.
func (p *process) failed(ctx context.Context, err error) error {
	var log string
	var execErr *sandbox.ExecError
	isExec := errors.As(err, &execErr)
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if p.streams != nil && p.far == nil && !isExec {
		log = p.streams.complaint()
	}
	left := p.clear(cleaning)
	if p.far != nil {
		log = p.far.complaint.String()
	}
	if isExec {
		return execErr
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if log != "" {
		err = fmt.Errorf("%w: %s", err, log)
	}
	return errors.Join(fmt.Errorf("sandbox: %s: %w", p.backend.options.Engine, err), left)
}

// clear frees all that there is for the container.
func (p *process) clear(ctx context.Context) error {
	if p.boot.dir == "" {
		return nil
	}
	var errs []error
	if p.control != nil {
		_ = p.control.Close() // which ends PID 1
	}
	if err := remove(ctx, p.backend.engine, p.boot.name); err != nil {
		errs = append(errs, fmt.Errorf("remove container %s: %w", p.boot.name, err))
	}
	p.forget()
	p.tell.Wait()
	if p.streams != nil {
		p.streams.close()
	}
	if p.far != nil {
		p.far.close()
	}
	errs = append(errs, unstage(p.boot.name))
	if errors.Join(errs...) != nil { // the record stays for EndOrphans
		p.boot.deafen()
		return errors.Join(errs...)
	}
	return p.boot.close()
}

// watch follows the container to its end.
func (p *process) watch(stop func() bool) {
	defer close(p.done)
	var report inside.Report
	reportErr := inside.Receive(p.control, &report)
	p.timer.Stop()
	stop()
	if p.far != nil && reportErr == nil {
		p.streams.drain(p.ended) // what was printed comes over what control is a part of
	}
	_ = p.control.Close() // which ends PID 1, if it has not
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if reportErr != nil {
		_ = p.backend.engine.kill(ctx, p.boot.name) // it may be gone
	}
	select {
	case <-p.exited:
	case <-ctx.Done(): // removed by force below
	}
	if reportErr == nil {
		p.streams.drain(p.ended)
	}
	p.conclude(report, reportErr, p.outOfMemory(ctx))
	cleaning, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	p.err = errors.Join(p.err, p.clear(cleaning))
}

func (p *process) outOfMemory(ctx context.Context) bool {
	c, err := p.backend.engine.inspect(ctx, p.boot.name)
	return err == nil && c.State != nil && c.State.OOMKilled
}

func (p *process) conclude(report inside.Report, reportErr error, oom bool) {
	cause := p.cause.Load()
	p.exit = sandbox.Exit{OOM: oom}
	if reportErr == nil && report.Ended {
		p.exit.Code, p.exit.Signal = report.Code, syscall.Signal(report.Signal)
		if report.Signal != 0 {
			p.exit.Code = 128 + report.Signal
		}
		return
	}
	if cause == 0 && !oom {
		p.err = errors.New("sandbox: the container ended without a report")
	}
	p.exit.Signal = syscall.SIGKILL
	if cause == endedByPipe {
		p.exit.Signal = syscall.SIGPIPE
	}
	p.exit.Code = 128 + int(p.exit.Signal)
	p.exit.TimedOut = cause == endedByWall
	p.exit.Killed = cause == endedByKill || cause == endedByContext
}

// Pid implements sandbox.Process.
func (p *process) Pid() int { return p.pid }

// Wait implements sandbox.Process.
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Kill implements sandbox.Process.
func (p *process) Kill() error {
	p.end(endedByKill)
	select {
	case <-p.done:
		return nil
	case <-time.After(2 * killTimeout):
		return fmt.Errorf("sandbox: container %s is still there", p.boot.name)
	}
}

// Freeze implements sandbox.Process.
func (p *process) Freeze() error { return inside.Say(p.control, inside.Freeze) }

// Thaw implements sandbox.Process.
func (p *process) Thaw() error { return inside.Say(p.control, inside.Thaw) }

// end closes the control socket, upon which PID 1 ends, and the rest with it;
// watch sees to it that it does. The first cause counts.
func (p *process) end(cause int32) {
	p.cause.CompareAndSwap(0, cause)
	p.ending.Do(func() { close(p.ended) })
	_ = p.control.Close()
}

func randomHex() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(raw[:])
}

var controlCharacters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\x00-\x1f\x7f]+`) })

// printable keeps what a container says on one line.
func printable(s string) string { return controlCharacters().ReplaceAllString(s, " ") }
