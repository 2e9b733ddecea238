package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/verify"
)

// Session is a launcher that is told for which limit a command was ended.
type Session interface {
	Launcher
	NoteLimit(ctx context.Context, why string)
}

// Output runs a command to its end and reads what it prints, up to verify.MaxOutput of each stream.
// The rest is read and dropped.
func Output(ctx context.Context, s Session, c sandbox.Command) (verify.Output, error) {
	var streams [2]kept
	g := NewKeeper(c.Posture.Limits)
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
		reading.Go(func() { streams[i].read(g.Meter, read) })
	}
	g.Count(c.Posture.Mounts)
	defer g.Close()
	started := time.Now()
	proc, err := s.Start(ctx, c)
	if err = errors.Join(err, closeEnds()); err != nil {
		reading.Wait()
		return notRunnable(err)
	}
	g.Watch(proc)
	exit, err := s.Wait(ctx, proc)
	reading.Wait()
	if why := g.Close(); why != "" {
		s.NoteLimit(ctx, why)
		streams[1] = kept{head: []byte(LimitError{Why: why}.Error() + "\n"), cut: true}
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
		return verify.Output{ExitCode: ExitNotFound, Stderr: []byte(refused.Message)}, nil
	}
	return verify.Output{}, err
}

// ExitNotFound is a shell's exit code for a program that cannot be run.
const ExitNotFound = 127

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
