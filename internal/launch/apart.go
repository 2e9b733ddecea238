package launch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/layering"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/reach"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// checkLimit is how long one check may take, and checkTail how much of its output is kept, in bytes.
	checkLimit, checkTail = 20 * time.Minute, 16 << 10
)

// Apart runs commands in fresh sandboxes that reach nothing: no door, no proxy, no secrets (S-13).
type Apart struct {
	Session *basis.Basis
	Reach   *reach.Reach
}

// Bases is where the bases are that the folders of checks and agents can be layers over; empty
// where this machine or the session's backend lays no layers.
func Bases(ctx context.Context, s *basis.Basis) string {
	m := layering.Of(s.Sandbox(), s.Inst.Registry.Paths(), s.Inst.Options.Version, s.Inst.Options.Now)
	if layering.Work(ctx, m) != nil {
		return ""
	}
	return m.Dir
}

// Check runs a command over the code in a folder, which may be a layer over a base. What it prints
// is kept to its tail.
func (a Apart) Check(ctx context.Context, dir, base, command string, modules []verify.Module) (nacre.CheckResult, error) {
	s := a.Session
	p, err := a.Reach.PostureWith(posture.Input{Project: dir, Base: base, Offline: true, Limits: nacre.Limits{Wall: checkLimit}}, modules) //nolint:contextcheck // it looks at files of this machine
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
	g := process.NewKeeper(p.Limits)
	defer g.Close()
	g.Count(p.Mounts) //nolint:contextcheck // what counts ends with the keeper
	started := time.Now()
	proc, err := s.Start(ctx, sandbox.Command{
		Posture: p, Argv: []string{"/bin/sh", "-c", command}, Stdin: null, Stdout: write, Stderr: write,
	})
	if err != nil {
		return nacre.CheckResult{}, errors.Join(err, read.Close(), write.Close())
	}
	if err := write.Close(); err != nil {
		return nacre.CheckResult{}, err
	}
	output := make(chan string, 1)
	go func() { output <- a.tail(g.Meter.Reader(read)) }()
	g.Watch(proc)
	exit, err := s.Wait(ctx, proc)
	text := <-output
	if why := g.Close(); why != "" {
		s.NoteLimit(ctx, why)
		text += "\n" + process.LimitError{Why: why}.Error()
	}
	return nacre.CheckResult{
		Command: command, ExitCode: exit.Code, TimedOut: exit.TimedOut, Tail: text, Duration: time.Since(started), Strength: "weak",
	}, errors.Join(err, read.Close(), ctx.Err())
}

// tail reads to the end and keeps what came last, without secrets. They are taken out of the
// whole: of one that was cut, nobody knows what is left.
func (a Apart) tail(r io.Reader) string {
	var kept last
	clean := a.Session.Inst.Redact.Writer(&kept)
	_, _ = io.Copy(clean, r) // it ends with the check, whatever ends that
	_ = clean.Close()        // the last takes everything
	return kept.text()
}

// last keeps the last whole lines of what is written, and counts the others. Its zero value is
// ready.
type last struct {
	kept []byte
	gone int // lines
}

// Write never fails.
func (l *last) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if len(l.kept) > 2*checkTail {
		l.cut()
	}
	return len(p), nil
}

func (l *last) cut() {
	from := len(l.kept) - checkTail
	if end := bytes.IndexByte(l.kept[from:len(l.kept)-1], '\n'); end >= 0 { // else it is one long line
		from += end + 1
	}
	l.gone += bytes.Count(l.kept[:from], []byte("\n"))
	l.kept = append(l.kept[:0], l.kept[from:]...)
}

func (l *last) text() string {
	if len(l.kept) > checkTail {
		l.cut()
	}
	if l.gone == 0 {
		return string(l.kept)
	}
	return fmt.Sprintf("(%d lines before these are not kept)\n%s", l.gone, l.kept)
}

// Run runs a verifier's command over the code under test.
func (a Apart) Run(ctx context.Context, c verify.Command) (verify.Output, error) {
	p, err := a.Reach.PostureWith(posture.Input{ //nolint:contextcheck // it looks at files of this machine
		Project: c.Dir, Offline: true, Env: c.Env, Limits: nacre.Limits{Wall: cmp.Or(c.Limit, checkLimit)},
	}, c.Modules)
	if err != nil {
		return verify.Output{}, err
	}
	return process.Output(ctx, a.Session, sandbox.Command{Posture: p, Argv: c.Argv})
}
