package assembly

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/verify"
)

// runner runs a verifier's commands over the code under test: each in a fresh
// sandbox that reaches nothing, no door, no proxy, no secrets (S-13).
func (s *sealed) runner() verify.Runner {
	return func(ctx context.Context, c verify.Command) (verify.Output, error) {
		p, err := s.postureWith(posture.Input{
			Project: c.Dir, Offline: true, Env: c.Env, Limits: nacre.Limits{Wall: cmp.Or(c.Limit, checkLimit)},
		}, c.Modules)
		if err != nil {
			return verify.Output{}, err
		}
		return s.output(ctx, sandbox.Command{Posture: p, Argv: c.Argv})
	}
}

// output runs a command to its end and reads what it prints, up to
// verify.MaxOutput of each stream; the rest is read and dropped.
func (s *sealed) output(ctx context.Context, c sandbox.Command) (verify.Output, error) {
	var streams [2]kept
	g := newKeeper(c.Posture.Limits)
	var reading sync.WaitGroup
	var ends []*os.File
	closeEnds := func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end.Close())
		}
		return errors.Join(errs...)
	}
	for i, to := range []**os.File{&c.Stdout, &c.Stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			return verify.Output{}, errors.Join(err, closeEnds())
		}
		*to, ends = write, append(ends, write)
		reading.Go(func() { streams[i].read(g.meter, read) })
	}
	g.count(c.Posture.Mounts)
	defer g.close()
	started := time.Now()
	process, err := s.Start(ctx, c)
	if err = errors.Join(err, closeEnds()); err != nil {
		reading.Wait()
		return notRunnable(err)
	}
	g.watch(process)
	exit, err := s.Wait(ctx, process)
	reading.Wait()
	if why := g.close(); why != "" {
		s.noteLimit(ctx, why)
		streams[1] = kept{head: []byte(errLimit{why}.Error() + "\n"), cut: true}
	}
	return verify.Output{
		ExitCode: exit.Code, TimedOut: exit.TimedOut, Stdout: streams[0].head, Stderr: streams[1].head,
		Cut: streams[0].cut || streams[1].cut, Duration: time.Since(started),
	}, errors.Join(err, ctx.Err())
}

// notRunnable tells a program that is not there, as a shell would, from a host
// that failed.
func notRunnable(err error) (verify.Output, error) {
	var refused *sandbox.ExecError
	if errors.As(err, &refused) {
		return verify.Output{ExitCode: exitNotFound, Stderr: []byte(refused.Message)}, nil
	}
	return verify.Output{}, err
}

// exitNotFound is a shell's exit code for a program that cannot be run.
const exitNotFound = 127

// kept is the beginning of a stream.
type kept struct {
	head []byte
	cut  bool
}

// read reads a stream to its end, so that nobody who writes to it waits.
func (k *kept) read(meter *sandbox.Meter, file *os.File) {
	defer func() { _ = file.Close() }() // it was only read
	r := meter.Reader(file)
	head, err := io.ReadAll(io.LimitReader(r, verify.MaxOutput))
	k.head = head
	if err == nil {
		n, _ := io.Copy(io.Discard, r) // what follows is dropped anyway
		k.cut = n > 0
	}
}
