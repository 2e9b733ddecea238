//go:build linux

package inside

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shmPages limits System V shared memory of the sandbox: 64 MiB, as /dev/shm.
const shmPages = "16384"

// lastSignal is the highest real-time signal.
const lastSignal = 64

// watchShare is which part of what the host's user may have of inotify's instances
// and watches a sandbox gets at most: the kernel counts them for both together.
const watchShare = 4

// kernelLimits holds the files that forbid further namespaces, and bound what is
// counted for the host's user too. They are opened while the host's /proc is there
// and written when the last namespace exists.
type kernelLimits []kernelLimit

type kernelLimit struct {
	file  *os.File
	value string
}

func openKernelLimits() kernelLimits {
	var open kernelLimits
	limit := func(name, value string) {
		f, err := os.OpenFile("/proc/sys/user/max_"+name, os.O_WRONLY, 0)
		if err == nil { // the seccomp filter refuses new namespaces in any case
			open = append(open, kernelLimit{f, value})
		}
	}
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		limit(kind+"_namespaces", "0")
	}
	for _, kind := range []string{"instances", "watches"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + kind)
		if all, badly := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && badly == nil {
			limit("inotify_"+kind, strconv.Itoa(max(all/watchShare, 1)))
		}
	}
	_ = os.WriteFile("/proc/sys/kernel/shmall", []byte(shmPages), 0) // writable on recent kernels only
	return open
}

func (l kernelLimits) close() {
	for _, limit := range l {
		_, _ = limit.file.WriteString(limit.value) // of namespaces, a second lock behind the filter's
		_ = limit.file.Close()
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
