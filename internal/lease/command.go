package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// commandTimeout bounds a command that prints a value.
const commandTimeout = 30 * time.Second

// errLong ends a command that prints more than a value can have.
var errLong = fmt.Errorf("it printed more than %d bytes: let it print the value alone", maxValue)

// run starts the command as the operator, and keeps nothing of what it says
// besides its output: a complaint may hold the value. It has no terminal to ask on and
// nothing to read, and whatever it started ends with it.
func (s Source) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...) //nolint:gosec // the operator's own config names it
	out := &bounded{full: cancel}
	command.Stdout, command.Dir, command.WaitDelay = out, "/", time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Start(); err != nil {
		return "", errors.New("it could not be started: name an installed program")
	}
	err := command.Wait()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it left behind, if anything
	var exit *exec.ExitError
	switch {
	case out.long:
		return "", errLong
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s: it may be asking something, and has no terminal to ask on", commandTimeout)
	case errors.As(err, &exit):
		return "", fmt.Errorf("it ended with status %d: run it yourself to see why", exit.ExitCode())
	case err != nil:
		return "", errors.New("it left something running that holds its output: name a program that ends")
	}
	return out.kept.String(), nil
}

// bounded keeps as much of an output as a value can have, and ends what prints more. Its
// buffer is not embedded: io.Copy would fill one that has ReadFrom without a bound.
type bounded struct {
	kept bytes.Buffer
	full func()
	long bool
}

// Write keeps the beginning.
func (b *bounded) Write(p []byte) (int, error) {
	if b.long || b.kept.Len()+len(p) > maxValue+2 {
		b.long = true
		b.full()
		return len(p), nil
	}
	return b.kept.Write(p)
}
