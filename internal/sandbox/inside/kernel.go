package inside

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shmPages limits System V shared memory of the sandbox: 64 MiB, as /dev/shm.
const shmPages = "16384"

// lastSignal is the highest real-time signal.
const lastSignal = 64

// namespaceLimits holds the files that forbid further namespaces. They are
// opened while the host's /proc is there and written when the last one exists.
type namespaceLimits []*os.File

func openNamespaceLimits() namespaceLimits {
	var open namespaceLimits
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		f, err := os.OpenFile("/proc/sys/user/max_"+kind+"_namespaces", os.O_WRONLY, 0)
		if err == nil { // the seccomp filter refuses new namespaces in any case
			open = append(open, f)
		}
	}
	_ = os.WriteFile("/proc/sys/kernel/shmall", []byte(shmPages), 0) // writable on recent kernels only
	return open
}

func (l namespaceLimits) close() {
	for _, f := range l {
		_, _ = f.WriteString("0") // a second lock behind the filter's
		_ = f.Close()
	}
}

// raiseLoopback brings up lo, the only interface.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

func capsetAllThreads(header *unix.CapUserHeader, data *[2]unix.CapUserData) error {
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)
	if e != 0 {
		return fmt.Errorf("capabilities of PID 1: %w", e)
	}
	return nil
}

// What a signal of PID 1's does: nothing in either way, where the kernel keeps
// from an init what it has no handler for. gVisor does not; there only an
// ignored signal is none.
const (
	signalDefault = 0 // SIG_DFL
	signalIgnore  = 1 // SIG_IGN
)

// resetSignals takes away the handlers that the Go runtime installed: the
// kernel delivers to an init only signals that it handles.
func resetSignals(handler uint64) error {
	action := [4]uint64{handler} // struct kernel_sigaction: no flags, no mask
	for signal := uintptr(1); signal <= lastSignal; signal++ {
		switch unix.Signal(signal) {
		case unix.SIGKILL, unix.SIGSTOP:
			continue
		case unix.SIGCHLD: // who ignores it is not told how a child ended
			action[0] = signalDefault
		default:
			action[0] = handler
		}
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if e != 0 {
			return fmt.Errorf("signal %d of PID 1: %w", signal, e)
		}
	}
	return nil
}
