package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
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

// Relay connects a person's terminal to the master of a pseudo terminal until
// the sandbox closes its end: raw mode, window size, bytes both ways. What is
// shown is read through count. The terminal is as before when it returns.
func Relay(in, out, master *os.File, count func(io.Reader) io.Reader) error {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return errors.New("standard input is not a terminal")
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, before) }() // the person's next command resets it otherwise
	stop := followSize(in, master)
	defer stop()
	endInput, err := relayInput(in, master)
	if err != nil {
		return err
	}
	defer endInput()
	_, err = io.Copy(out, count(master))
	if errors.Is(err, unix.EIO) { // how a terminal says that its other end is closed
		return nil
	}
	return err
}

// relayInput copies keys to the master until end is called.
func relayInput(in, master *os.File) (end func(), err error) {
	stopRead, stopWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		defer func() { _ = stopRead.Close() }()
		keys := make([]byte, 4096)
		for readable(in, stopRead) {
			n, err := in.Read(keys)
			if err != nil {
				return
			}
			if _, err := master.Write(keys[:n]); err != nil {
				return
			}
		}
	})
	return func() {
		_ = stopWrite.Close()
		wait.Wait()
	}, nil
}

// readable waits for input, and returns false when stop is closed first.
func readable(in, stop *os.File) bool {
	wait := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(wait, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && wait[1].Revents == 0
	}
}

// followSize keeps the window sizes equal until stop is called.
func followSize(from, to *os.File) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	var wait sync.WaitGroup
	wait.Go(func() {
		copySize(from, to)
		for range changes {
			copySize(from, to)
		}
	})
	return func() {
		signal.Stop(changes)
		close(changes)
		wait.Wait()
	}
}

func copySize(from, to *os.File) {
	size, err := unix.IoctlGetWinsize(int(from.Fd()), unix.TIOCGWINSZ)
	if err == nil {
		_ = unix.IoctlSetWinsize(int(to.Fd()), unix.TIOCSWINSZ, size) // the old size is still a size
	}
}
