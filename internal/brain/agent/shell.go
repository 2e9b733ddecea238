//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of shell.
const (
	defaultShellTime = 120
	maxShellTime     = 3600
	maxCommand       = 120 << 10
	// pipeGrace is for output of a process that left the command's group.
	pipeGrace = time.Second
)

// shell runs a command with sh. Its process group ends with it: what must
// live longer needs a session of its own.
func (t Tools) shell(ctx context.Context, input json.RawMessage) (Result, error) {
	var command string
	seconds := defaultShellTime
	if err := brain.Fields(input, map[string]any{"command": &command, "timeout_s": &seconds}); err != nil {
		return Result{}, err
	}
	switch {
	case strings.TrimSpace(command) == "":
		return Result{}, errors.New("command is empty")
	case len(command) > maxCommand:
		return Result{}, fmt.Errorf("command of %d bytes: at most %d", len(command), maxCommand)
	case strings.ContainsRune(command, 0):
		return Result{}, errors.New("command holds a NUL byte")
	case seconds < 1 || seconds > maxShellTime:
		return Result{}, fmt.Errorf("timeout_s %d: use 1–%d", seconds, maxShellTime)
	}
	return t.run(ctx, command, time.Duration(seconds)*time.Second)
}

func (t Tools) run(ctx context.Context, command string, timeout time.Duration) (Result, error) {
	var output clipped
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = t.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(t.Hidden, name)
	})
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeGrace
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitEnd(cmd.Process.Pid)
	}()
	why := ""
	select {
	case <-ended:
	case <-timer.C:
		why = fmt.Sprintf("[timed out after %s and was killed]", timeout)
	case <-ctx.Done():
		why = "[stopped]"
	}
	// The leader is not reaped yet, so the number still means this group.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // it may be gone already
	<-ended
	err := cmd.Wait()
	return shellResult(cmd.ProcessState, err, &output, why)
}

// awaitEnd returns when the process has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func shellResult(state *os.ProcessState, err error, output *clipped, why string) (Result, error) {
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
		return Result{}, err
	}
	text := output.String()
	if why != "" {
		return Result{Text: joinLines(text, why), IsError: true}, nil
	}
	code := state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
		text = joinLines(text, fmt.Sprintf("[ended by signal %d]", status.Signal()))
	}
	return Result{Text: text, IsError: code != 0, ExitCode: &code}, nil
}

func joinLines(a, b string) string {
	if a == "" || strings.HasSuffix(a, "\n") {
		return a + b
	}
	return a + "\n" + b
}
