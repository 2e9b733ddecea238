package sandbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Requests of the kernel's terminals that differ between systems.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
	getSession = unix.TIOCGSID
	unreadSize = unix.TIOCINQ
)

// OpenPty opens a pseudo terminal. The slave goes to Command.Stdin, Stdout
// and Stderr with Terminal set, and is closed after Start; the master is read
// and written by the caller, who closes it.
func OpenPty() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	// TIOCGPTPEER opens the other end without a path that could be another file.
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, flags)
	if e != 0 {
		_ = master.Close()
		return nil, nil, fmt.Errorf("pseudo terminal: %w", e)
	}
	return master, os.NewFile(peer, "pts"), nil
}

// stopSelf stops nacre as Ctrl-Z does, and this thread in this line. A signal to the job could
// stop the process before or after it. A second one would stop it again after the shell went on.
func stopSelf() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
}

// widen asks that a pipe hold more.
func widen(pipe *os.File) {
	fd := int(pipe.Fd()) // blocking from here on, as programs expect of their streams
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
}

// move moves bytes from one file to another in the kernel, where it can.
func move(from, to, most int) (int64, error) {
	return unix.Splice(from, nil, to, nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
}

// socketPair are two ends of a stream.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}
