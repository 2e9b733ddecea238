package assembly

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// process is a sealed program with pipes: what brains and plugins are handed.
type process struct {
	stdin          *os.File
	stdout, stderr *os.File
	sealed         sandbox.Process
	keeper         *keeper

	wait     func() (int, error)
	timedOut atomic.Bool      // set when wait returns
	limited  func(why string) // told, where it is set, for which limit it was ended
}

// launcher starts sealed commands: a session, or a sandbox that is only tried.
type launcher interface {
	Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)
	Wait(ctx context.Context, p sandbox.Process) (sandbox.Exit, error)
}

// startPiped launches a command sealed, with a pipe to each of its streams.
func startPiped(ctx context.Context, s launcher, c sandbox.Command) (*process, error) {
	var pipes [3][2]*os.File
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, closePipes(pipes))
		}
		pipes[i] = [2]*os.File{r, w}
	}
	c.Stdin, c.Stdout, c.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	g := newKeeper(c.Posture.Limits)
	g.count(c.Posture.Mounts)
	sealed, err := s.Start(ctx, c)
	if err != nil {
		g.close()
		return nil, errors.Join(err, closePipes(pipes))
	}
	g.watch(sealed)
	// The ends that the sandbox holds: kept open here they would never reach their end.
	err = errors.Join(c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close())
	p := &process{stdin: pipes[0][1], stdout: pipes[1][0], stderr: pipes[2][0], sealed: sealed, keeper: g}
	p.wait = sync.OnceValues(func() (int, error) {
		exit, err := s.Wait(ctx, sealed)
		p.timedOut.Store(exit.TimedOut)
		why := g.close()
		if why != "" {
			if p.limited != nil {
				p.limited(why)
			}
			err = errors.Join(errLimit{why}, err)
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
func (p *process) Stdin() io.WriteCloser { return p.stdin }

// Stdout implements brain.Process.
func (p *process) Stdout() io.Reader { return p.out() }

// Stderr implements brain.Process.
func (p *process) Stderr() io.Reader { return p.complaints() }

func (p *process) out() metered { return metered{p.keeper.meter.Reader(p.stdout), p.stdout} }

func (p *process) complaints() metered { return metered{p.keeper.meter.Reader(p.stderr), p.stderr} }

// metered is a stream that is counted.
type metered struct {
	io.Reader
	io.Closer
}

// Wait implements brain.Process.
func (p *process) Wait() (int, error) { return p.wait() }

// Kill implements brain.Process.
func (p *process) Kill() error { return p.sealed.Kill() }

// collect waits for the process and gives the first limit bytes that it printed.
func (p *process) collect(limit int64) (out []byte, code int, err error) {
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, p.complaints()) /* nobody asked for them */ })
	err = p.stdin.Close()
	said := p.out()
	out, readErr := io.ReadAll(io.LimitReader(said, limit))
	_, _ = io.Copy(io.Discard, said) // so that it never waits for us
	code, waitErr := p.Wait()
	reading.Wait()
	return out, code, errors.Join(err, readErr, waitErr)
}
