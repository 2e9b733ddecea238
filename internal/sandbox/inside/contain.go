//go:build linux

package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// SendWork hands PID 1 of a container its work, with the socket over which it is asked
// for sockets of its network, or nil.
func SendWork(control interface {
	io.Writer
	syscall.Conn
}, work Container, network *os.File) error {
	work.Network = network != nil
	if err := Send(control, work); err != nil || network == nil {
		return err
	}
	raw, err := control.SyscallConn()
	if err != nil {
		return err
	}
	return sendFiles(raw, []*os.File{network})
}

// containThreads run Go code in PID 1, whatever the machine has: its threads
// count against the container's limit on processes.
const containThreads = 4

// runContain is PID 1 of a container. It asks the host for its work over the control socket, checks
// what the engine made, and becomes unreachable for the agent that it starts. The container ends
// with it, and it ends with the host.
func runContain() error {
	runtime.GOMAXPROCS(containThreads)
	control, err := dial(ControlSocket)
	if err != nil {
		return fmt.Errorf("the host's socket: %w (gVisor wants --host-uds=open)", err)
	}
	var work Container
	if err := Receive(control, &work); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fd, err := work.receiveNetwork(control)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return work.Run(control, fd)
}

// Run does the work in this process, PID 1: it starts the agent, obeys the host, and
// reports until the agent has ended. networkFD is where sockets of this network are
// asked for, zero for nowhere. When control ends, so does this process.
func (c *Container) Run(control io.ReadWriter, networkFD int) error {
	agent, err := c.prepare(networkFD)
	if err != nil {
		return Send(control, reportOf(err))
	}
	return agent.watched(control)
}

// receiveNetwork takes the socket that follows the work; zero is none.
func (c *Container) receiveNetwork(control socket) (fd int, err error) {
	if !c.Network {
		return 0, nil
	}
	var came []int
	err = control.wait(syscall.RawConn.Read, func(from int) (err error) {
		came, err = receiveFiles(from)
		return err
	})
	if err != nil {
		return 0, err
	}
	return descriptor(came, 1)
}

func (c *Container) prepare(networkFD int) (*stage, error) {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the engine's container", powerless},
		{"the engine's network", c.checkNetwork},
		{"the engine's mounts", c.checkBinds},
		{"symbolic links", c.link},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	forwards, err := listen(c.Forwards)
	if err != nil {
		return nil, err
	}
	network, err := openNetwork(networkFD)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	c.Agent.Contained, c.Agent.Landlock = true, LandlockVersion()
	agent, err := c.startAgent()
	if err != nil {
		return nil, err
	}
	if err := hide(); err != nil {
		return nil, err
	}
	forwards.serve()
	network.serve()
	return agent, nil
}

// powerless reports what this process could do that no agent may.
func powerless() error {
	if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getgid() == 0 {
		return errors.New("it runs as root: refused")
	}
	if groups, err := os.Getgroups(); err != nil || len(groups) > 1 || len(groups) == 1 && groups[0] != os.Getgid() {
		return fmt.Errorf("it has further groups %v: refused", groups)
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 1 {
		return errors.New("it may gain privileges (no_new_privs is not set): refused")
	}
	return noCapabilities()
}

// noCapabilities checks every set. The bounding set must be empty, so that the
// others stay so.
func noCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && held != 0 {
			return fmt.Errorf("capability %d can be had: refused", c)
		}
	}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for _, s := range sets {
		if s.Effective|s.Permitted|s.Inheritable != 0 {
			return errors.New("it has capabilities: refused")
		}
	}
	return nil
}

func (c *Container) checkNetwork() error {
	if c.Routed {
		return nil
	}
	return onlyLoopback()
}

// onlyLoopback refuses a network that leads anywhere.
func onlyLoopback() error {
	links, err := interfaces()
	if err != nil {
		return err
	}
	up := false
	for _, flags := range links {
		switch {
		case flags&unix.IFF_LOOPBACK != 0:
			up = up || flags&unix.IFF_UP != 0
		case flags&unix.IFF_UP != 0:
			return errors.New("it has an interface beside its loopback: refused")
		}
	}
	if !up {
		return errors.New("its loopback interface is down")
	}
	return nil
}

// interfaces are the flags of each.
func interfaces() ([]uint32, error) {
	table, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("its interfaces: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, fmt.Errorf("its interfaces: %w", err)
	}
	var links []uint32
	for _, m := range messages {
		if m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= unix.SizeofIfInfomsg {
			links = append(links, binary.NativeEndian.Uint32(m.Data[8:])) // ifi_flags
		}
	}
	return links, nil
}

// checkBinds compares what is mounted with what the host checked: the engine
// opened the paths once more by name.
func (c *Container) checkBinds() error {
	for _, b := range c.Binds {
		fd, err := unix.Openat2(unix.AT_FDCWD, b.Target, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // gVisor and old engines' filters have no openat2
			fd, err = unix.Open(b.Target, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		}
		if errors.Is(err, unix.ELOOP) {
			return fmt.Errorf("%s: %w", b.Target, errLink)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.Target, err)
		}
		err = b.check(fd)
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Target, err)
		}
	}
	return nil
}

func (b Bind) check(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if b.Ino != 0 && (uint64(st.Dev) != b.Dev || st.Ino != b.Ino) {
		return errors.New("it is not what was checked on the host (does the engine run on this machine, in the same mounts?): refused")
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if b.ReadOnly && fs.Flags&unix.ST_RDONLY == 0 {
		return errors.New("the engine did not make it read-only: refused")
	}
	return nil
}

// link makes the links of the plan, where the agent itself could.
func (c *Container) link() error {
	for _, m := range c.Symlinks {
		if err := os.MkdirAll(path.Dir(m.Target), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(m.Source, m.Target); err != nil {
			return fmt.Errorf("%w (put it into the image)", err)
		}
	}
	return nil
}

// startAgent starts the stage that becomes the agent, which is the same user.
// A terminal is PID 1's already: the agent has it as its foreground.
func (c *Container) startAgent() (*stage, error) {
	file, err := c.Agent.find(os.Getuid())
	if err != nil {
		return nil, err
	}
	var p spawn.Program
	if !c.Terminal {
		p.Do("session", unix.SYS_SETSID)
	}
	p.Files([]uintptr{0, 1, 2})
	if err := c.Agent.become(&p, file); err != nil {
		return nil, err
	}
	child, err := p.Start(0)
	if err == nil && c.Terminal {
		if err = unix.Setpgid(child.Pid, child.Pid); err == nil {
			err = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, child.Pid)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("last stage: %w", err) // PID 1 ends, and it with it
	}
	return newStage(child, c.Agent, file), nil
}

// hide makes PID 1 unreachable for the agent, which is the same user.
func hide() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range 3 { // the streams are the agent's alone, so that they end with it
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("non-dumpable PID 1: %w", err)
	}
	return resetSignals(signalIgnore)
}
