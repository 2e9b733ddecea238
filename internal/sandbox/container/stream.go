package container

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

const (
	// maxLog is how much of what PID 1 complained about is kept, in bytes.
	maxLog = 2048
	// logTimeout is how long the complaint is waited for.
	logTimeout = 2 * time.Second
	// sizeEvery is how often a terminal's size is looked at.
	sizeEvery = 200 * time.Millisecond
	inputSize = 32 << 10
)

// streams lead between the caller's files and an attached container. They hold
// copies: the caller may close its own.
type streams struct {
	attached   attached
	terminal   bool
	in         *os.File // nil for none
	out, err   *os.File // nil for none
	resize     func(height, width uint)
	stopRead   *os.File // readable when input has to stop
	stopWrite  *os.File
	inputs     sync.WaitGroup
	outputDone chan struct{}
	started    bool
	once       sync.Once
}

func newStreams(c sandbox.Command, attached attached, resize func(height, width uint)) (*streams, error) {
	s := &streams{attached: attached, terminal: c.Terminal, resize: resize, outputDone: make(chan struct{})}
	for _, f := range []struct {
		from *os.File
		to   **os.File
	}{{c.Stdin, &s.in}, {c.Stdout, &s.out}, {c.Stderr, &s.err}} {
		var err error
		if *f.to, err = duplicate(f.from); err != nil {
			s.close()
			return nil, err
		}
	}
	var err error
	if s.stopRead, s.stopWrite, err = os.Pipe(); err != nil {
		s.close()
		return nil, err
	}
	if s.terminal && s.in != nil {
		if _, err := term.MakeRaw(int(s.in.Fd())); err != nil { // the container's own terminal does the rest
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// duplicate leaves the file's mode as it is.
func duplicate(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // no file
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(from uintptr) { fd, dupErr = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// copy begins. broken is called when nobody reads the output any more.
func (s *streams) copy(broken func()) {
	s.started = true
	go func() {
		defer close(s.outputDone)
		if err := s.copyOutput(); errors.Is(err, unix.EPIPE) {
			broken()
		}
		// What is left is nobody's; the agent must not wait for it.
		_, _ = io.Copy(io.Discard, s.attached.Reader)
	}()
	if s.in != nil {
		s.inputs.Go(s.copyInput)
	}
	if s.terminal && s.in != nil {
		s.inputs.Go(s.followSize)
	}
}

func (s *streams) copyOutput() error {
	out, complaints := writer(s.out), writer(s.err)
	if s.terminal {
		_, err := io.Copy(out, s.attached.Reader)
		return err
	}
	_, err := stdcopy.StdCopy(out, complaints, s.attached.Reader)
	return err
}

func writer(f *os.File) io.Writer {
	if f == nil {
		return io.Discard
	}
	return f
}

func (s *streams) copyInput() {
	defer func() { _ = s.attached.CloseWrite() }() // the agent sees the end of its input
	buffer := make([]byte, inputSize)
	for s.readable(-1) {
		n, err := s.in.Read(buffer)
		if n > 0 {
			if _, err := s.attached.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readable waits for input, and returns false when the streams are closed first.
func (s *streams) readable(timeout int) bool {
	fd := -1
	raw, err := s.in.SyscallConn()
	if err == nil {
		err = raw.Control(func(f uintptr) { fd = int(f) })
	}
	if err != nil {
		return false
	}
	wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(s.stopRead.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(wait, timeout)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && wait[1].Revents == 0
	}
}

// followSize keeps the container's terminal as large as the caller's.
func (s *streams) followSize() {
	var last unix.Winsize
	stop := []unix.PollFd{{Fd: int32(s.stopRead.Fd()), Events: unix.POLLIN}}
	for {
		size, err := unix.IoctlGetWinsize(int(s.in.Fd()), unix.TIOCGWINSZ)
		if err == nil && size.Row != 0 && *size != last {
			last = *size
			s.resize(uint(size.Row), uint(size.Col))
		}
		if n, err := unix.Poll(stop, int(sizeEvery.Milliseconds())); n != 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// drain waits until all that was written has been handed on, or given up.
func (s *streams) drain(giveUp <-chan struct{}) {
	select {
	case <-s.outputDone:
	case <-giveUp:
	}
}

// complaint is what PID 1 said before there was an agent.
func (s *streams) complaint() string {
	_ = s.attached.SetReadDeadline(time.Now().Add(logTimeout))
	var text bytes.Buffer
	limited := io.LimitReader(s.attached.Reader, 2*maxLog)
	if s.terminal {
		_, _ = io.Copy(&text, limited)
	} else {
		_, _ = stdcopy.StdCopy(&text, &text, limited)
	}
	return printable(string(bytes.TrimSpace(text.Bytes()[:min(text.Len(), maxLog)])))
}

// close ends all copying, and returns when it has ended.
func (s *streams) close() {
	s.once.Do(func() {
		_ = s.attached.Close() // what was written is written
		if s.stopWrite != nil {
			_ = s.stopWrite.Close()
		}
		for _, f := range []*os.File{s.out, s.err} {
			if f != nil {
				_ = f.Close() // a copy: what was written is written
			}
		}
		s.inputs.Wait()
		if s.started {
			select {
			case <-s.outputDone:
			case <-time.After(logTimeout): // a terminal that was stopped takes nothing, and cannot be told to
			}
		}
		for _, f := range []*os.File{s.in, s.stopRead} {
			if f != nil {
				_ = f.Close()
			}
		}
	})
}
