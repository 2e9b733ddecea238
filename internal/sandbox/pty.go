package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Face stands between a person's terminal and the program on the pseudo terminal.
type Face interface {
	// Write shows what the program printed.
	io.Writer
	// Type takes what the person typed, and returns what of it is the program's and
	// whether the job is to stop.
	Type(typed []byte) (program []byte, suspend bool)
	// Resized is told that the terminal has another size.
	Resized()
	// Leave gives the terminal back before the job stops, and returns what is still the
	// program's. Return takes it again.
	Leave() (program []byte)
	Return()
	// Over is told that nothing which the program printed is waited for any more.
	Over()
	// Close gives it back when the program is gone.
	Close()
}

// ErrHungUp is what a relay ends with whose terminal is gone.
var ErrHungUp = errors.New("the terminal was closed")

// Relay connects a person's terminal to the master of a pseudo terminal until
// the sandbox closes its end: raw mode, window size, bytes both ways through face. What
// is shown is read through count. The terminal is as before when it returns. Where it is
// gone before, whatever else the program prints, the error is [ErrHungUp].
func Relay(in, master *os.File, face Face, count func(io.Reader) io.Reader) error {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return errors.New("standard input is not a terminal")
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() {
		if inForeground(fd) { // else the shell has it, and had it restored
			_ = term.Restore(fd, before) // the person's next command resets it otherwise
		}
	}()
	stop := followSize(in, master, face.Resized)
	defer stop()
	defer face.Close()
	var gone atomic.Bool
	hungUp := func() {
		gone.Store(true)
		face.Over()
		_ = master.SetReadDeadline(time.Unix(1, 0)) // what the program prints is read no more
	}
	endInput, err := relayInput(in, master, face, hungUp, func(stop *os.File) error { return suspend(in, master, stop, face, before) })
	if err != nil {
		return err
	}
	defer endInput() // before the face, which then reads the terminal alone
	_, err = io.Copy(face, count(master))
	if gone.Load() {
		return ErrHungUp
	}
	if errors.Is(err, unix.EIO) { // how a terminal says that its other end is closed
		return nil
	}
	return err
}

// relayInput copies keys to the master until end is called. It calls hungUp where the
// terminal is gone before.
func relayInput(in, master *os.File, face Face, hungUp func(), suspend func(stop *os.File) error) (end func(), err error) {
	stopRead, stopWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		defer func() { _ = stopRead.Close() }()
		keys := make([]byte, 4096)
		for readable(in, stopRead) {
			if !inForeground(int(in.Fd())) { // what is typed is for the shell
				ready(int(lookTime.Milliseconds()), unix.PollFd{Fd: int32(stopRead.Fd()), Events: unix.POLLIN})
				continue
			}
			n, err := in.Read(keys)
			if err != nil {
				hungUp()
				return
			}
			program, stops := face.Type(keys[:n])
			if _, err := master.Write(program); err != nil {
				return
			}
			if !stops {
				continue
			}
			if err := suspend(stopRead); err != nil {
				if errors.Is(err, ErrHungUp) {
					hungUp()
				}
				return
			}
		}
	})
	return func() {
		_ = stopWrite.Close()
		wait.Wait()
	}, nil
}

// suspend stops nacre as Ctrl-Z does in a terminal that is not raw, and goes on when the
// shell says so. Where there is no shell that could, the kernel does not stop it. One that
// goes on in the background, as to be ended there, leaves the terminal to the shell.
func suspend(in, master, stop *os.File, face Face, before *term.State) error {
	if _, err := master.Write(face.Leave()); err != nil {
		return err
	}
	if err := term.Restore(int(in.Fd()), before); err != nil {
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	if err := stopSelf(); err != nil {
		return err
	}
	for !inForeground(int(in.Fd())) {
		if ready(int(lookTime.Milliseconds()), unix.PollFd{Fd: int32(stop.Fd()), Events: unix.POLLIN}) {
			return errEnded
		}
	}
	if _, err := term.MakeRaw(int(in.Fd())); err != nil {
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	face.Return()
	return nil
}

// lookTime is how often a job in the background looks whether the terminal is its own again.
const lookTime = 100 * time.Millisecond

var errEnded = errors.New("the program ended while the job was stopped")

// inForeground tells whether nacre may set its terminal without being stopped for it. A
// terminal that no shell shares is nacre's.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// Draws tells whether the program on a pseudo terminal takes each key as it is typed, as
// one does that draws on it.
func Draws(master *os.File) bool {
	state, err := unix.IoctlGetTermios(int(master.Fd()), getTermios)
	return err == nil && state.Lflag&unix.ICANON == 0
}

// Alone tells whether the program on a pseudo terminal reads lines, and leads the session that has
// the terminal. No shell stands over it then that could go on with it, so that Ctrl-Z would reach
// it and do nothing.
func Alone(master *os.File) bool {
	fd := int(master.Fd())
	state, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil || state.Lflag&unix.ICANON == 0 || state.Lflag&unix.ISIG == 0 {
		return false
	}
	session, err := unix.IoctlGetInt(fd, getSession)
	if err != nil {
		return false
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && session > 0 && group == session
}

// redrawTime is for how long a program sees another size, so that it draws anew.
const redrawTime = 100 * time.Millisecond

// Redraw makes the program on a pseudo terminal draw anew. It is told of a size with one row less,
// or more where there are hardly any, and then of the right one.
func Redraw(in, master *os.File) {
	size, err := unix.IoctlGetWinsize(int(in.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return
	}
	if size.Row > 1 {
		size.Row--
	} else {
		size.Row++
	}
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size) // as in copySize
	<-time.After(redrawTime)
	copySize(in, master)
}

// Size is that of a terminal, zeros where it has none.
func Size(of *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(of.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// hearTime is for how long a terminal may be silent that was asked something: one at the
// far end of a slow line still answers.
const hearTime = time.Second

// Hear reads what a terminal sends, nothing where it is silent.
func Hear(in *os.File) []byte {
	heard := make([]byte, 4096)
	if !ready(int(hearTime.Milliseconds()), unix.PollFd{Fd: int32(in.Fd()), Events: unix.POLLIN}) || !inForeground(int(in.Fd())) {
		return nil
	}
	n, err := in.Read(heard)
	if err != nil {
		return nil // it is gone
	}
	return heard[:n]
}

// readable waits for input, and returns false when stop is closed first.
func readable(in, stop *os.File) bool {
	return ready(-1, unix.PollFd{Fd: int32(in.Fd()), Events: unix.POLLIN}, unix.PollFd{Fd: int32(stop.Fd()), Events: unix.POLLIN})
}

// ready waits at most for a time in milliseconds, and tells whether the first of some
// files, and that one alone, has something to read.
func ready(patience int, wait ...unix.PollFd) bool {
	for {
		n, err := unix.Poll(wait, patience)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1 && wait[0].Revents != 0
	}
}

// followSize keeps the window sizes equal until stop is called.
func followSize(from, to *os.File, changed func()) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	var wait sync.WaitGroup
	wait.Go(func() {
		copySize(from, to)
		for range changes {
			copySize(from, to)
			changed()
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
