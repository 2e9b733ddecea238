package mcpdriver

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// grace is how long a server may take to end once its input is closed.
const grace = time.Second

// process is a server on its standard streams.
type process struct {
	io.Reader
	input   *os.File
	command *exec.Cmd
	once    sync.Once
	err     error
}

// start runs the command in a process group of its own, so that all of it can be ended.
func start(s Server) (*process, error) {
	command := exec.Command(s.Command[0], s.Command[1:]...) //nolint:noctx // it outlives the call that starts it; Close ends it
	command.Dir, command.Env, command.Stderr = s.Dir, s.environment(), s.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.WaitDelay = grace // of descendants that hold its streams open
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	theirs, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdin = theirs
	err = command.Start()
	_ = theirs.Close() // the command has its own
	if err != nil {
		_ = input.Close() // nobody reads it
		return nil, err
	}
	return &process{Reader: output, input: input, command: command}, nil
}

// Write implements io.Writer.
func (p *process) Write(data []byte) (int, error) { return p.input.Write(data) }

// SetWriteDeadline bounds writes to a server that does not read.
func (p *process) SetWriteDeadline(t time.Time) error { return p.input.SetWriteDeadline(t) }

// Close closes the server's input, and kills it with all that it started where
// it does not end in time.
func (p *process) Close() error {
	p.once.Do(func() {
		_ = p.input.Close() // it may have gone already
		kill := time.AfterFunc(grace, p.kill)
		p.err = p.command.Wait()
		if kill.Stop() {
			p.kill() // what it left behind
		}
		var exit *exec.ExitError
		if errors.As(p.err, &exit) || errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // how a server ends is its own affair
		}
	})
	return p.err
}

func (p *process) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // nobody there is what is wanted
}
