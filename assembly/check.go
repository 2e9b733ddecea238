package assembly

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// checkLimit is how long one check may take.
	checkLimit = 20 * time.Minute
	// checkTail is how much of a check's output is kept.
	checkTail = 16 << 10
)

// check runs a command over dir in a fresh sandbox that reaches nothing: no
// door, no proxy, no secrets (S-13). What it prints is kept to its tail.
func (s *sealed) check(ctx context.Context, dir, command string, modules []verify.Module) (nacre.CheckResult, error) {
	p, err := s.postureWith(posture.Input{Project: dir, Offline: true, Limits: nacre.Limits{Wall: checkLimit}}, modules)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	defer func() { _ = null.Close() }() // nothing is written to it
	read, write, err := os.Pipe()
	if err != nil {
		return nacre.CheckResult{}, err
	}
	g := newKeeper(p.Limits)
	defer g.close()
	g.count(p.Mounts)
	started := time.Now()
	process, err := s.Start(ctx, sandbox.Command{
		Posture: p, Argv: []string{"/bin/sh", "-c", command}, Stdin: null, Stdout: write, Stderr: write,
	})
	if err != nil {
		return nacre.CheckResult{}, errors.Join(err, read.Close(), write.Close())
	}
	if err := write.Close(); err != nil {
		return nacre.CheckResult{}, err
	}
	output := make(chan string, 1)
	go func() { output <- tail(g.meter.Reader(read)) }()
	g.watch(process)
	exit, err := s.Wait(ctx, process)
	text := <-output
	if why := g.close(); why != "" {
		s.noteLimit(ctx, why)
		text += "\n" + errLimit{why}.Error()
	}
	clean, _ := s.runtime.redact.String(text)
	return nacre.CheckResult{
		Command: command, ExitCode: exit.Code, TimedOut: exit.TimedOut, Tail: clean, Duration: time.Since(started), Strength: "weak",
	}, errors.Join(err, read.Close(), ctx.Err())
}

// tail reads to the end and keeps what came last.
func tail(r io.Reader) string {
	kept, buffer := make([]byte, 0, 2*checkTail), make([]byte, checkTail)
	for {
		n, err := r.Read(buffer)
		kept = append(kept, buffer[:n]...)
		if len(kept) > checkTail {
			kept = append(kept[:0], kept[len(kept)-checkTail:]...)
		}
		if err != nil {
			return string(kept)
		}
	}
}
