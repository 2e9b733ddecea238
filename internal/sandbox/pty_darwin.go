package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of the kernel's terminals that differ between systems.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
	getSession = 0x40047463 // TIOCGSID
	unreadSize = 0x4004667f // FIONREAD
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
	var name [128]byte
	for _, step := range []struct{ request, argument uintptr }{
		{unix.TIOCPTYGRANT, 0}, {unix.TIOCPTYUNLK, 0}, {unix.TIOCPTYGNAME, uintptr(unsafe.Pointer(&name[0]))},
	} {
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), step.request, step.argument); e != 0 {
			return nil, nil, errors.Join(fmt.Errorf("pseudo terminal: %w", e), master.Close())
		}
	}
	path, _, _ := bytes.Cut(name[:], []byte{0})
	slave, err = os.OpenFile(string(path), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pseudo terminal: %w", err), master.Close())
	}
	return master, slave, nil
}

// stopSelf stops nacre as Ctrl-Z does.
func stopSelf() error { return unix.Kill(unix.Getpid(), unix.SIGTSTP) }

// widen does nothing: a pipe's size is the kernel's here.
func widen(*os.File) {}

// move moves nothing: what is printed is copied here.
func move(int, int, int) (int64, error) { return 0, unix.EINVAL }

// socketPair are two ends of a stream.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}
