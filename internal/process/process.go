// Package process runs a sealed program with pipes, and ends it at the first of its
// limits that it exceeds. A [Process] is what brains and plugins are handed.
package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// Process is a sealed program with pipes: what brains and plugins are handed.
type Process struct {
	Input          *os.File
	stdout, stderr *os.File
	sealed         sandbox.Process
	keeper         *Keeper
	read           *reading

	Await    func() (int, error)
	TimedOut atomic.Bool      // set when wait returns
	Limited  func(why string) // told, where it is set, for which limit it was ended
}

// Launcher starts sealed commands: a session, or a sandbox that is only tried.
type Launcher interface {
	Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)
	Wait(ctx context.Context, p sandbox.Process) (sandbox.Exit, error)
}

// Start launches a command sealed, with a pipe to each of its streams.
func Start(ctx context.Context, s Launcher, c sandbox.Command) (*Process, error) {
	var pipes [3][2]*os.File
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, closePipes(pipes))
		}
		pipes[i] = [2]*os.File{r, w}
	}
	read := newReading(pipes[1][0], pipes[2][0])
	c.Drained = read.wait
	c.Stdin, c.Stdout, c.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	g := NewKeeper(c.Posture.Limits)
	g.Count(c.Posture.Mounts)
	sealed, err := s.Start(ctx, c)
	if err != nil {
		g.Close()
		return nil, errors.Join(err, closePipes(pipes))
	}
	g.Watch(sealed)
	// The ends that the sandbox holds: kept open here they would never reach their end.
	err = errors.Join(c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close())
	p := &Process{Input: pipes[0][1], stdout: pipes[1][0], stderr: pipes[2][0], sealed: sealed, keeper: g, read: read}
	p.Await = sync.OnceValues(func() (int, error) {
		exit, err := s.Wait(ctx, sealed)
		p.TimedOut.Store(exit.TimedOut)
		why := g.Close()
		if why != "" {
			if p.Limited != nil {
				p.Limited(why)
			}
			err = errors.Join(LimitError{why}, err)
		}
		return exit.Code, err
	})
	return p, err
}

func closePipes(pipes [3][2]*os.File) error {
	var errs []error
	for _, pipe := range pipes {
		for _, end := range pipe {
			if end != nil {
				errs = append(errs, end.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// Stdin implements brain.Process.
func (p *Process) Stdin() io.WriteCloser { return p.Input }

// Stdout implements brain.Process.
func (p *Process) Stdout() io.Reader { return p.Out() }

// Stderr implements brain.Process.
func (p *Process) Stderr() io.Reader { return p.Complaints() }

// Out is what the process prints, counted against its limit.
func (p *Process) Out() metered { return p.read.of(p.stdout, p.keeper.Meter) }

// Complaints are what the process prints to standard error, counted alike.
func (p *Process) Complaints() metered { return p.read.of(p.stderr, p.keeper.Meter) }

// Wait implements brain.Process.
func (p *Process) Wait() (int, error) { return p.Await() }

// Kill implements brain.Process.
func (p *Process) Kill() error { return p.sealed.Kill() }

// Freeze stops every process of the sandbox until Thaw.
func (p *Process) Freeze() error { return p.sealed.Freeze() }

// Thaw lets them go on.
func (p *Process) Thaw() error { return p.sealed.Thaw() }

// Collect waits for the process and gives the first limit bytes that it printed.
func (p *Process) Collect(limit int64) (out []byte, code int, err error) {
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, p.Complaints()) /* nobody asked for them */ })
	err = p.Input.Close()
	said := p.Out()
	out, readErr := io.ReadAll(io.LimitReader(said, limit))
	_, _ = io.Copy(io.Discard, said) // so that it never waits for us
	code, waitErr := p.Wait()
	reading.Wait()
	return out, code, errors.Join(err, readErr, waitErr)
}
