//go:build linux

package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// agentOOM lets the kernel look at the agent before PID 1 when memory is short.
const agentOOM = "1000"

// stage is the process that becomes the agent: a list of system calls, which it
// makes when it is released.
type stage struct {
	child *spawn.Child
	name  string // what the agent was called with
	file  string // which that is
}

// startStage clones the second user namespace, in which the only user is the agent's.
func startStage(plan Plan, streams [3]uintptr) (*stage, error) {
	file, err := plan.Agent.find(plan.InnerUID)
	if err != nil {
		return nil, err
	}
	var p spawn.Program
	p.Do("session", unix.SYS_SETSID)
	p.Do("group", unix.SYS_SETGID, AgentUID)
	p.Do("user", unix.SYS_SETUID, AgentUID)
	p.Files(streams[:])
	if plan.Devices {
		p.Do("terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1)
	}
	if err := plan.Agent.become(&p, file); err != nil {
		return nil, err
	}
	child, err := p.Start(unix.CLONE_NEWUSER)
	if err != nil {
		return nil, fmt.Errorf("second user namespace: %w", err)
	}
	inner := []syscall.SysProcIDMap{{ContainerID: AgentUID, HostID: plan.InnerUID, Size: 1}}
	if err := child.Map(inner, inner, false); err != nil {
		return nil, fmt.Errorf("second user namespace: %w", err) // PID 1 ends, and it with it
	}
	for _, fd := range append(streams[:], SelfFD) {
		_ = unix.Close(int(fd))
	}
	return newStage(child, plan.Agent, file), nil
}

func newStage(child *spawn.Child, agent Agent, file string) *stage {
	_ = os.WriteFile("/proc/"+strconv.Itoa(child.Pid)+"/oom_score_adj", []byte(agentOOM), 0) // a preference only
	if !filepath.IsAbs(file) {
		file = filepath.Join(agent.Dir, file)
	}
	return &stage{child, agent.Argv[0], file}
}

// release lets the stage become the agent. It returns what went wrong, or nil
// when the agent runs.
func (s *stage) release() error {
	if err := s.child.Go(); err != nil {
		return fmt.Errorf("last stage: %w", err)
	}
	err := s.child.Executed()
	var failed *spawn.CallError
	if errors.As(err, &failed) && failed.What == execution {
		return execError{fmt.Errorf("%s: %w", s.name, s.missing(failed.Err))}
	}
	return err
}

// maxShebang is how much of a script the kernel reads to find its interpreter, in bytes.
const maxShebang = 256

// missing says which file the kernel did not find, where the program itself is there, and what the
// program is where the kernel takes it for none.
func (s *stage) missing(err error) error {
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("it is no program of this machine, and no script that names its interpreter behind a #! in its first line: %w", err)
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("it leads to no program: it is a link to itself, or a script whose interpreter is a script again, and so on: %w", err)
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	script, opened := os.OpenFile(s.file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(opened, fs.ErrNotExist):
		return fmt.Errorf("it is not there inside: of your files only the project is, and a command that your PATH finds by its name: %w", err)
	case opened != nil:
		return err
	}
	defer func() { _ = script.Close() }() // it was only read
	text := make([]byte, maxShebang)
	n, _ := io.ReadFull(script, text) // shorter ones, too
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return fmt.Errorf("it is there, and what loads it is not: it was built for another C library: %w", err)
	}
	return fmt.Errorf("it is there, and its interpreter %q is not: of your home, only the command and the project are inside: %w", words[0], err)
}

// reportOf says why there is no agent.
func reportOf(err error) Report {
	report := Report{Error: err.Error()}
	var execErr execError
	if !errors.As(err, &execErr) {
		return report
	}
	report.Exec = true
	var errno unix.Errno
	if errors.As(err, &errno) {
		report.Errno = int(errno)
	}
	return report
}
