package braintest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Exec starts a launch as a plain process: its files and its home are put in
// a temporary directory, and program takes the place of its first argument.
func Exec(t *testing.T, l brain.Launch, program string, env []string, dir string) brain.Process {
	t.Helper()
	root := t.TempDir()
	places := strings.NewReplacer(brain.RoleDir, filepath.Join(root, brain.RoleDir), brain.Home, filepath.Join(root, brain.Home))
	for _, f := range l.Files {
		name := filepath.Join(root, f.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, os.FileMode(f.Mode))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, brain.Home), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program), done: make(chan struct{})}
	for _, arg := range l.Argv[1:] {
		p.cmd.Args = append(p.cmd.Args, places.Replace(arg))
	}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range append(l.Env, env...) {
		p.cmd.Env = append(p.cmd.Env, places.Replace(e))
	}
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.start(t)
	return p
}

// process is a group of processes with three pipes that outlive Wait.
type process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *os.File
	done           chan struct{}
	code           int
	err            error
}

func (p *process) start(t *testing.T) {
	t.Helper()
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ours[i], theirs[i] = r, w
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = ours[0], theirs[1], theirs[2]
	p.stdin, p.stdout, p.stderr = theirs[0], ours[1], ours[2]
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{ours[0], theirs[1], theirs[2]} {
		_ = f.Close() // the child has its own
	}
	go func() {
		defer close(p.done)
		p.code, p.err = exitCode(p.cmd.Wait())
	}()
	t.Cleanup(func() {
		_ = p.Kill()
		<-p.done
		_ = errors.Join(p.stdin.Close(), p.stdout.Close(), p.stderr.Close()) // some are closed
	})
}

func exitCode(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// Stdin is what the program reads.
func (p *process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is what the program writes.
func (p *process) Stdout() io.Reader { return p.stdout }

// Stderr is what it complains about.
func (p *process) Stderr() io.Reader { return p.stderr }

// Wait waits for its end.
func (p *process) Wait() (int, error) {
	<-p.done
	return p.code, p.err
}

// Kill ends the program and what it started.
func (p *process) Kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// reap ends the sleeper that a killed program may have left behind: without a
// sandbox nothing else does.
func reap(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return
	}
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err == nil && cwd == dir {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its group, if it leads one
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
