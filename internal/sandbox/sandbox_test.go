package sandbox_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == sandbox.Init {
		os.Exit(sandbox.Main(os.Args))
	}
	if filepath.Base(os.Args[0]) == sandbox.PodProgram {
		os.Exit(fakePods())
	}
	if state := os.Getenv(keeperState); state != "" {
		if err := keep(state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(forbidden) != "" {
		if err := openForbidden(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if at := os.Getenv(serveAt); at != "" {
		if err := echo(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// open returns a launcher with a state directory of its own.
func open(t testing.TB) *sandbox.Native {
	t.Helper()
	n, err := sandbox.Open(sandbox.Options{Init: initBinary(t), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// initBinary is empty, for this binary itself, or the one to use where this
// one cannot be PID 1.
func initBinary(t testing.TB) string {
	t.Helper()
	if !linkedWithC {
		return ""
	}
	return testpeer.Program(t, sandbox.Init)
}

// command runs a program with the host's tools and nothing else.
func command(argv ...string) sandbox.Command {
	return sandbox.Command{
		Label: "test",
		Argv:  argv,
		Posture: nacre.Posture{
			Mounts: sandbox.SystemMounts(),
			Dir:    "/home/agent",
			Env:    []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "HOME=/home/agent", "LANG=C.UTF-8"},
			Limits: nacre.Limits{Wall: time.Minute},
		},
	}
}

// shell runs a script.
func shell(script string) sandbox.Command { return command("sh", "-c", script) }

// project binds a directory at /workspace and works there.
func project(c sandbox.Command, dir string) sandbox.Command {
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: dir, Target: "/workspace"})
	c.Posture.Dir = "/workspace"
	return c
}

type result struct {
	sandbox.Exit
	stdout, stderr string
}

// run starts the command with pipes and waits for its end.
func run(t testing.TB, n sandbox.Backend, c sandbox.Command) result {
	t.Helper()
	stdout, stdoutWrite := pipe(t)
	stderr, stderrWrite := pipe(t)
	c.Stdout, c.Stderr = stdoutWrite, stderrWrite
	p, err := n.Start(t.Context(), c)
	_ = stdoutWrite.Close()
	_ = stderrWrite.Close()
	if err != nil {
		t.Fatalf("start %q: %v", c.Argv, err)
	}
	var out, complaints bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&complaints, stderr)
	}()
	_, _ = io.Copy(&out, stdout)
	<-done
	exit, err := p.Wait()
	if err != nil {
		t.Fatalf("wait %q: %v", c.Argv, err)
	}
	return result{exit, out.String(), complaints.String()}
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, w
}

func TestAShellRunsAsTheAgent(t *testing.T) { // M-12
	n := open(t)
	have := run(t, n, shell("id -u; id -g; hostname; pwd; echo oops >&2; exit 7"))
	if have.Code != 7 || strings.TrimSpace(have.stderr) != "oops" {
		t.Errorf("have exit %+v, stderr %q", have.Exit, have.stderr)
	}
	if want := "1000\n1000\nnacre\n/home/agent\n"; have.stdout != want {
		t.Errorf("have %q, want %q", have.stdout, want)
	}
}
