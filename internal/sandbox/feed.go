package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Feed returns what a command reads in place of in, a file or a terminal that is the person's.
// Through the descriptor itself a command that runs as the person changes the file's mode and reads
// what comes before its offset. It writes to the terminal or sets it up, wherever its own output
// goes. Pipes, sockets and devices are returned as they are. end stops it, once the command has
// gone; of a file, what the command did not read is then next.
func Feed(in *os.File) (input *os.File, end func(), err error) {
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() && !term.IsTerminal(int(in.Fd())) {
		return in, func() {}, nil //nolint:nilerr // what cannot be read is refused where it is handed on
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("standard input: %w", err)
	}
	stopped, stop, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("standard input: %w", err), read.Close(), write.Close())
	}
	f := &feed{from: in, to: int(write.Fd()), stop: int(stopped.Fd())}
	var wait sync.WaitGroup
	wait.Go(func() {
		f.run()
		_ = write.Close() // which is the end of the input
	})
	return read, func() {
		_ = stop.Close()
		wait.Wait()
		if info.Mode().IsRegular() {
			f.giveBack(read)
		}
		_, _ = read.Close(), stopped.Close()
	}, nil
}

// feed copies to a pipe.
type feed struct {
	from     *os.File
	to, stop int
	held     int // read, and not in the pipe
}

func (f *feed) run() {
	buffer := make([]byte, copyBuffer)
	for f.ready(int(f.from.Fd()), unix.POLLIN) && !inBackground(f.from) {
		n, err := unix.Read(int(f.from.Fd()), buffer)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil || !f.pass(buffer[:n]) {
			return
		}
	}
}

// pass writes all of it, or is told to stop.
func (f *feed) pass(p []byte) bool {
	for f.held = len(p); f.held > 0; {
		if !f.ready(f.to, unix.POLLOUT) {
			return false
		}
		n, err := unix.Write(f.to, p[:min(len(p), pipeBuf)])
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return false
		}
		p = p[max(n, 0):]
		f.held = len(p)
	}
	return true
}

// ready waits for a descriptor, and is false when the feed has to end.
func (f *feed) ready(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(f.stop)}}
	for {
		_, err := unix.Poll(fds, -1)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[1].Revents == 0
		}
	}
}

// giveBack sets a file to behind what was taken from the pipe.
func (f *feed) giveBack(pipe *os.File) {
	unread, err := unix.IoctlGetInt(int(pipe.Fd()), unreadSize)
	if err == nil && unread+f.held > 0 {
		_, _ = f.from.Seek(-int64(unread+f.held), io.SeekCurrent) // where that fails it is as after any reader
	}
}

// inBackground reports whether reading from the terminal would stop nacre: what
// is typed is another program's.
func inBackground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
