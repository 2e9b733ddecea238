package inside

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The inherited descriptors of the agent's last stage.
const (
	orderFD   = 3 // the Agent, sent when the sandbox is sealed
	failureFD = 4 // a Report, if the agent cannot start; closed by a successful execve
)

// agentOOM lets the kernel look at the agent before PID 1 when memory is short.
const agentOOM = "1000"

// stage is the process that becomes the agent.
type stage struct {
	pid     int
	order   *os.File
	failure *os.File
}

// startStage clones the second user namespace, in which the only user is the
// agent's. The stage keeps one power, to empty its bounding set.
func startStage(plan Plan, streams [3]uintptr) (*stage, error) {
	inner := []syscall.SysProcIDMap{{ContainerID: AgentUID, HostID: plan.InnerUID, Size: 1}}
	s, err := forkStage(&syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: inner,
		GidMappings: inner,
		Credential:  &syscall.Credential{Uid: AgentUID, Gid: AgentUID, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SETPCAP},
		Setsid:      true,
		Setctty:     plan.Devices,
	}, streams)
	if err != nil {
		return nil, fmt.Errorf("second user namespace: %w", err)
	}
	for _, fd := range append(streams[:], SelfFD) {
		_ = unix.Close(int(fd))
	}
	return s, nil
}

// forkStage starts the last stage, which waits for its order.
func forkStage(attributes *syscall.SysProcAttr, streams [3]uintptr) (*stage, error) {
	orderRead, orderWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	failureRead, failureWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Name, ModeAgent}, &syscall.ProcAttr{
		Env:   []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"},
		Dir:   "/",
		Files: append(streams[:], orderRead.Fd(), failureWrite.Fd()),
		Sys:   attributes,
	})
	if err != nil {
		return nil, err
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(agentOOM), 0) // a preference only
	_ = orderRead.Close()
	_ = failureWrite.Close()
	return &stage{pid: pid, order: orderWrite, failure: failureRead}, nil
}

// release lets the stage become the agent. It returns what went wrong, or nil
// when the agent runs.
func (s *stage) release(agent Agent) *Report {
	defer func() { _ = s.failure.Close() }()
	err := json.NewEncoder(s.order).Encode(agent)
	if closeErr := s.order.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return &Report{Error: "last stage: " + err.Error()}
	}
	text, err := io.ReadAll(s.failure)
	if err != nil {
		return &Report{Error: "last stage: " + err.Error()}
	}
	if len(text) == 0 {
		return nil
	}
	var report Report
	if err := json.Unmarshal(text, &report); err != nil {
		return &Report{Error: fmt.Sprintf("last stage: %.200q", text)}
	}
	return &report
}
