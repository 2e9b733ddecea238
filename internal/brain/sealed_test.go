package brain_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-04: both brains hold their contract where they are meant to run, inside
// the native sandbox, with the model behind a socket.
func TestReplayIsABrainInsideTheSandbox(t *testing.T) {
	native := sealer(t)
	s := replaySubject()
	s.Start = func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process {
		return startSealed(t, native, l, env, dir, "")
	}
	braintest.Real(t, s)
}

func TestClaudeCodeIsABrainInsideTheSandbox(t *testing.T) {
	b, program := claudeHere(t)
	native := sealer(t)
	s := claudeSubject(b, program, nil)
	sockets := map[string]string{}
	s.Turn = func(t *testing.T, choices []brain.Choice) (brain.Turn, []string) {
		sockets[t.Name()] = behindSocket(t, (&stubModel{}).handler(choices))
		return claudeTurn("do it"), nil
	}
	s.Start = func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process {
		return startSealed(t, native, l, env, dir, sockets[t.Name()])
	}
	braintest.Real(t, s)
}

// behindSocket serves the gateway's socket in a folder of its own.
func behindSocket(t *testing.T, handler http.Handler) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "brain") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the test's own
	listener, err := net.Listen("unix", filepath.Join(dir, nacre.ModelSocket))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, nacre.ModelSocket), 0o666)); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })        // it ends by Close
	t.Cleanup(func() { _ = server.Close(); served.Wait() }) // the test's own
	return dir
}

func sealer(t *testing.T) *sandbox.Native {
	t.Helper()
	options := sandbox.Options{Init: testpeer.Program(t, sandbox.Init)}
	if problem := sandbox.Support(options).Problem; problem != "" {
		testpeer.Missing(t, "sandbox", "the native sandbox: "+problem)
	}
	native, err := sandbox.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := native.Close(); err != nil {
			t.Error(err)
		}
	})
	return native
}

// startSealed does what the composition root does with a launch.
func startSealed(t *testing.T, native *sandbox.Native, l brain.Launch, env []string, dir, sockets string) brain.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mounts := l.Mounts
	role := t.TempDir()
	for i, f := range l.Files {
		host := filepath.Join(role, strconv.Itoa(i))
		if err := os.WriteFile(host, f.Data, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
		mounts = append(mounts, nacre.Mount{Source: host, Target: f.Path})
	}
	p, err := posture.Compute(posture.Input{
		Project: dir, System: sandbox.SystemMounts(), Programs: map[string]string{"brain": self},
		Mounts: mounts, Env: append(l.Env, env...), Model: sockets != "",
	})
	if err != nil {
		t.Fatal(err)
	}
	if sockets == "" {
		p.Forwards = nil
	}
	return pipeSealed(t, native, sandbox.Command{Posture: p, SocketDir: sockets, Argv: l.Argv, Label: "brain-test"})
}

type sealed struct {
	sandbox.Process
	stdin          io.WriteCloser
	stdout, stderr io.Reader
}

func (s sealed) Stdin() io.WriteCloser { return s.stdin }
func (s sealed) Stdout() io.Reader     { return s.stdout }
func (s sealed) Stderr() io.Reader     { return s.stderr }
func (s sealed) Wait() (int, error) {
	exit, err := s.Process.Wait()
	return exit.Code, err
}

func pipeSealed(t *testing.T, native *sandbox.Native, c sandbox.Command) brain.Process {
	t.Helper()
	var ends []*os.File
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, r, w)
		return r, w
	}
	var s sealed
	var outW, errW, inR *os.File
	inR, s.stdin = pipe()
	s.stdout, outW = pipe()
	s.stderr, errW = pipe()
	c.Stdin, c.Stdout, c.Stderr = inR, outW, errW
	process, err := native.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.Process = process
	_ = errors.Join(inR.Close(), outW.Close(), errW.Close()) // the sandbox has its own
	t.Cleanup(func() {
		_ = process.Kill() // it has ended, or ends now
		for _, end := range ends {
			_ = end.Close() // some are closed
		}
	})
	return s
}

func TestTheFilesOfALaunchAreWhereNoProjectReaches(t *testing.T) {
	program := filepath.Join(t.TempDir(), "claude")
	write(t, program, "\x7fELF")
	turn := claudeTurn("x")
	turn.System, turn.Skills = "role", []brain.Skill{{Name: "ipc", Markdown: "how"}}
	l, err := brain.NewClaude(brain.Options{ClaudePath: program}).Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.Files {
		if strings.HasPrefix(f.Path, posture.Workspace) || strings.HasPrefix(f.Path, posture.Home) || f.Mode&0o222 != 0 {
			t.Errorf("%s with mode %o can be changed from inside", f.Path, f.Mode)
		}
	}
}
