//go:build linux

package inside

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killedStatus is PID 1's own exit code when the host is gone.
const killedStatus = 137

// runInit is PID 1 from its first instruction to the end of the sandbox. It
// closes what it does not know: whatever the host's program had open without
// close-on-exec.
func runInit() error {
	if err := unix.CloseRange(SelfFD+1, math.MaxUint32, 0); err != nil {
		return fmt.Errorf("inherited descriptors: %w", err)
	}
	for fd := ControlFD; fd <= SelfFD; fd++ {
		unix.CloseOnExec(fd)
	}
	control := os.NewFile(ControlFD, "control")
	place, beginErr := begin() // which the host may have asked for ahead: it is told when it sends a plan
	plan, streams, err := receiveOrder(control)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if beginErr != nil {
		return Send(control, reportOf(beginErr))
	}
	agent, err := place.prepare(&plan, streams, control)
	if err != nil {
		return Send(control, reportOf(err))
	}
	return agent.watched(control)
}

// watched starts the agent, and tells the host of that and of its end.
func (s *stage) watched(control io.ReadWriter) error {
	if err := s.release(); err != nil {
		return Send(control, reportOf(err))
	}
	go obeyHost(control)
	if err := Send(control, Report{Started: true}); err != nil {
		return err
	}
	ended, err := reap(s.child.Pid)
	if err != nil {
		return err
	}
	return Send(control, ended)
}

// obeyHost freezes and thaws the sandbox when the host says so. It ends PID 1, and
// with it the whole sandbox, when the host's end of the control socket closes: the
// host ended it, or was killed. The kernel stops all processes at one moment: one
// that is about to fork has the signal, and does not.
func obeyHost(control io.Reader) {
	word := make([]byte, 1)
	for {
		if _, err := io.ReadFull(control, word); err != nil {
			os.Exit(killedStatus) // any end of the stream means the same
		}
		switch Word(word[0]) {
		case Freeze:
			_ = unix.Kill(-1, unix.SIGSTOP) // nobody is left where it fails
		case Thaw:
			_ = unix.Kill(-1, unix.SIGCONT)
		case End:
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	}
}

// place is what PID 1 makes of its namespaces before it has a plan.
type place struct {
	limits kernelLimits
	root   *root
}

// begin does what is the same for every plan.
func begin() (*place, error) {
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); e != 0 {
		return nil, fmt.Errorf("no new privileges for PID 1: %w", e)
	}
	limits := openKernelLimits()
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(HostName)); err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	return &place{limits, root}, raiseLoopback()
}

// prepare does all that needs PID 1's powers, starts the agent's last stage,
// which waits, and then gives the powers up. The root is built while the host puts
// PID 1 where its limits hold; nothing of the agent's starts before it has.
func (b *place) prepare(plan *Plan, streams [3]uintptr, control io.Reader) (*stage, error) {
	if err := b.root.build(*plan); err != nil {
		return nil, err
	}
	if err := b.root.enter(); err != nil {
		return nil, err
	}
	forwards, err := listen(plan.Forwards)
	if err != nil {
		return nil, err
	}
	network, err := openNetwork(plan.Network)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	var confined Confined
	if err := Receive(control, &confined); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	plan.Agent.Limits.Data = confined.Data
	agent, err := startStage(*plan, streams)
	if err != nil {
		return nil, err
	}
	if err := b.root.seal(); err != nil {
		return nil, err
	}
	b.limits.close()
	if err := renounce(plan.KeepOverride); err != nil {
		return nil, err
	}
	forwards.serve()
	network.serve()
	return agent, nil
}

// renounce makes PID 1 unreachable from inside: no powers, no dumps, no
// handler for any signal, so that the kernel drops what the agent sends to it.
func renounce(keepOverride bool) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if keepOverride {
		data[0].Effective = 1 << unix.CAP_DAC_OVERRIDE
		data[0].Permitted = data[0].Effective
	}
	if err := capsetAllThreads(&header, &data); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("non-dumpable PID 1: %w", err)
	}
	return resetSignals(signalDefault)
}

// reap waits for every child that ends, until the agent itself does.
func reap(agent int) (Report, error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Report{}, fmt.Errorf("wait: %w", err)
		}
		if pid != agent || !status.Exited() && !status.Signaled() {
			continue
		}
		if status.Signaled() {
			return Report{Ended: true, Signal: int(status.Signal())}, nil
		}
		return Report{Ended: true, Code: status.ExitStatus()}, nil
	}
}
