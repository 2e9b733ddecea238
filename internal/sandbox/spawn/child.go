//go:build linux

package spawn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shared lets a child use the parent's memory until it executes a program: nothing
// is copied. Its list must not change what belongs to memory, such as the score of
// the memory killer, and neither must the parent for it. What a change of user makes
// of it, which is that nobody may look at the parent any more, is taken back.
const Shared = unix.CLONE_VM

// sharing is held while a child uses the memory of this process, which has one.
var sharing sync.Mutex

// Child is a process that begins its list when it is let go. Whoever started it asks
// whether it was Executed, or Ends it.
type Child struct {
	Pid      int
	program  *Program
	gate     *os.File
	failure  *os.File
	separate func() // what ends the sharing of memory
}

// CallError says which call of its list ended a child.
type CallError struct {
	What string
	Err  error // the errno
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *CallError) Unwrap() error { return e.Err }

// clone is the system call, and in the child the list from first to end.
func clone(flags, first, end, failure uintptr) uintptr

// Start makes the child with the clone flags of its namespaces. It waits until
// [Child.Go], and ends if its parent ends before. The caller reaps it.
func (p *Program) Start(flags uintptr) (*Child, error) {
	if p.err != nil {
		return nil, p.err
	}
	separate, err := share(flags)
	if err != nil {
		return nil, err
	}
	c, err := p.start(flags)
	if err != nil {
		separate()
		return nil, err
	}
	c.separate = separate
	return c, nil
}

// share waits until no other child uses this memory, if the new one will.
func share(flags uintptr) (separate func(), err error) {
	if flags&Shared == 0 {
		return func() {}, nil
	}
	sharing.Lock()
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		sharing.Unlock()
		return nil, err
	}
	return sync.OnceFunc(func() {
		if dumpable == 1 {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // never fails
		}
		sharing.Unlock()
	}), nil
}

// start makes the child while no descriptor is without its mark, and no other child can be made
// that would keep this one's gate open. Otherwise each would wait for the other when their parent
// is killed.
func (p *Program) start(flags uintptr) (*Child, error) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	gate, opened, err := p.pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = gate.Close() }() // the child has its own
	failure, failed, err := p.pipe()
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	defer func() { _ = failed.Close() }()
	c := &Child{program: p, gate: opened, failure: failure}
	p.raise(gate.Fd(), opened.Fd(), failure.Fd(), failed.Fd())
	var begin Program
	begin.Do("gate", unix.SYS_CLOSE, opened.Fd())
	begin.Await("gate", gate.Fd())
	p.prepend(begin)
	if err := c.clone(flags, failed.Fd()); err != nil {
		return nil, errors.Join(err, opened.Close(), failure.Close())
	}
	return c, nil
}

func (p *Program) prepend(begin Program) {
	p.calls = slices.Concat(begin.calls, p.calls)
	p.names = slices.Concat(begin.names, p.names)
	p.keep = append(p.keep, begin.keep...)
	for i := range p.calls {
		p.calls[i].index = i
	}
}

// pipe has its ends above the descriptors that the child gets by number, and not far
// above: it may have few.
func (p *Program) pipe() (read, write *os.File, err error) {
	var low, high [2]int
	if err := unix.Pipe2(low[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	defer func() { _, _ = unix.Close(low[0]), unix.Close(low[1]) }()
	for i, fd := range low {
		if high[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(p.files)/2); err != nil {
			if i == 1 {
				_ = unix.Close(high[0])
			}
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(high[0]), "pipe"), os.NewFile(uintptr(high[1]), "pipe"), nil
}

func (c *Child) clone(flags, failure uintptr) error {
	runtime.LockOSThread() // whose signal mask the child's program is to have
	defer runtime.UnlockOSThread()
	p := c.program
	if p.mask != nil {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(p.mask)), 8, 0, 0)
		if e != 0 {
			return e
		}
	}
	first := uintptr(unsafe.Pointer(&p.calls[0]))
	end := first + uintptr(len(p.calls))*unsafe.Sizeof(call{})
	pid := int(clone(flags|uintptr(unix.SIGCHLD), first, end, failure))
	if pid < 0 {
		return unix.Errno(-pid)
	}
	c.Pid = pid
	return nil
}

// Map gives the child's user namespace its users and groups, before it is let go.
func (c *Child) Map(users, groups []syscall.SysProcIDMap, setgroups bool) error {
	dir := "/proc/" + strconv.Itoa(c.Pid)
	if err := os.WriteFile(dir+"/uid_map", mapText(users), 0); err != nil {
		return err
	}
	if !setgroups { // which an ordinary user has to give up for a map of groups
		if err := os.WriteFile(dir+"/setgroups", []byte("deny"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.WriteFile(dir+"/gid_map", mapText(groups), 0)
}

func mapText(list []syscall.SysProcIDMap) []byte {
	var text []byte
	for _, m := range list {
		text = fmt.Appendf(text, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
	}
	return text
}

// Go lets the child begin.
func (c *Child) Go() error {
	_, err := c.gate.Write([]byte{0})
	return errors.Join(err, c.gate.Close())
}

// End kills the child and reaps it, with what it has become.
func (c *Child) End() {
	_ = unix.Kill(c.Pid, unix.SIGKILL) // it is ours, so that nobody else has its number
	for {
		if _, err := unix.Wait4(c.Pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.separate()
	_, _ = c.gate.Close(), c.failure.Close() // closed already, or of no use
	runtime.KeepAlive(c.program)
}

// Executed returns nil once the child has become its program, or is gone, and a
// *[CallError] if its list ended before.
func (c *Child) Executed() error {
	defer runtime.KeepAlive(c.program)
	text, err := io.ReadAll(c.failure)
	c.separate()
	_ = c.failure.Close() // read-only
	const size = int(unsafe.Sizeof(call{}))
	if err != nil || len(text) < size {
		return err
	}
	result := int64(binary.NativeEndian.Uint64(text[unsafe.Offsetof(call{}.result):]))
	index := binary.NativeEndian.Uint64(text[unsafe.Offsetof(call{}.index):])
	failed := &CallError{What: "child", Err: unix.EPROTO}
	if index < uint64(len(c.program.names)) {
		failed.What = c.program.names[index]
	}
	if result < 0 {
		failed.Err = unix.Errno(-result)
	}
	return failed
}
