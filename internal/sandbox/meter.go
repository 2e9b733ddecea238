package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	// relaySize is the most that a relay moves at once, and holds.
	relaySize = 1 << 20
	// pipeSize is what a pipe of a relay is asked to hold: the kernel's most for anyone.
	pipeSize = 1 << 20
	// copyBuffer is what is copied at once where nothing can be moved.
	copyBuffer = 64 << 10
	// pipeBuf is what a pipe that is ready takes without blocking.
	pipeBuf = 4096
)

// Meter counts what a sandbox prints on stdout and stderr together, and tells
// once when it is more than the limit (M-12). What goes beyond is not passed on.
type Meter struct {
	limit int64
	used  atomic.Int64
	mu    sync.Mutex // held while a relay moves bytes
	once  sync.Once
	over  func()

	relays sync.WaitGroup
	stop   [2]*os.File // readable once the relays have to end
	pipes  []*os.File
	full   atomic.Pointer[error] // what a disk took no more for
}

// NewMeter counts up to limit bytes. over is called at most once, from any goroutine.
func NewMeter(limit int64, over func()) *Meter { return &Meter{limit: limit, over: over} }

var errOutput = errors.New("the output limit is reached")

// count takes n bytes, or refuses all further ones.
func (m *Meter) count(n int64) error {
	if m.used.Add(n) <= m.limit {
		return nil
	}
	m.once.Do(m.over)
	return errOutput
}

// Unwritten is why not all that was printed is in the files that were asked for: their disk took no
// more of it. It is nil where only a reader is gone, and complete once Finish has returned.
func (m *Meter) Unwritten() error {
	why := m.full.Load()
	if why == nil {
		return nil
	}
	return fmt.Errorf("not all that the command printed could be written: %w", *why)
}

// refused notes what ended a relay.
func (m *Meter) refused(err error) {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		if errors.Is(err, full) {
			m.full.Store(&full)
		}
	}
}

// Reader counts what is read through it. Beyond the limit it is at its end.
func (m *Meter) Reader(r io.Reader) io.Reader { return meteredReader{m, r} }

type meteredReader struct {
	meter *Meter
	from  io.Reader
}

func (r meteredReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.meter.count(int64(n)) != nil {
		return 0, io.EOF
	}
	return n, err
}

// Streams puts relays between what the sandbox will print to and the files that were asked for, and
// returns what to give it instead. For a terminal that is another terminal, since programs look for
// one, and of ours they get none. Where both are one file they get one relay, so that their order
// stays. started closes our copies, and has to be called once the sandbox has its own or did not
// start; Finish ends the relays. shown, where set, passes of what is printed what may reach a
// terminal.
func (m *Meter) Streams(stdout, stderr *os.File, shown func(io.Reader) io.Reader) (out, complaints *os.File, started func(), err error) {
	if m.stop[0], m.stop[1], err = os.Pipe(); err != nil {
		return nil, nil, nil, err
	}
	started = func() {
		for _, p := range m.pipes {
			_ = p.Close() // the sandbox has its own copy
		}
		m.pipes = nil
	}
	if out, err = m.relay(stdout, shown); err == nil {
		if complaints = out; !sameFile(stdout, stderr) {
			complaints, err = m.relay(stderr, shown)
		}
	}
	if err != nil {
		started()
		m.Finish(false)
		return nil, nil, nil, err
	}
	return out, complaints, started, nil
}

// Finish returns when all that was printed has been passed on; where drain is
// false, without what its reader has not taken yet.
func (m *Meter) Finish(drain bool) {
	if m.stop[0] == nil {
		return
	}
	if drain {
		m.relays.Wait()
	}
	_ = m.stop[1].Close() // upon which the relays end
	m.relays.Wait()
	_ = m.stop[0].Close()
}

func sameFile(a, b *os.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	one, err := a.Stat()
	if err != nil {
		return false
	}
	two, err := b.Stat()
	return err == nil && os.SameFile(one, two)
}

func (m *Meter) relay(to *os.File, shown func(io.Reader) io.Reader) (*os.File, error) {
	if to == nil {
		return nil, nil //nolint:nilnil // no file
	}
	read, write, err := conduit(to)
	if err != nil {
		return nil, err
	}
	m.pipes = append(m.pipes, write)
	r := &relay{meter: m, from: int(read.Fd()), to: int(to.Fd()), stop: int(m.stop[0].Fd())}
	if term.IsTerminal(r.to) {
		r.shown = shown
	}
	m.relays.Go(func() {
		r.run()
		_ = read.Close() // upon which whoever still prints gets SIGPIPE
	})
	return write, nil
}

// conduit is a pipe, or where a terminal was asked for a terminal.
func conduit(to *os.File) (read, write *os.File, err error) {
	if term.IsTerminal(int(to.Fd())) {
		return screen(to)
	}
	if read, write, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	widen(write)
	return read, write, nil
}

// screen is a terminal as large as the other, which passes on what is printed as
// it is: the other one makes lines of it.
func screen(to *os.File) (master, slave *os.File, err error) {
	if master, slave, err = OpenPty(); err != nil {
		return nil, nil, err
	}
	copySize(to, slave)
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err == nil {
		modes.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(slave.Fd()), setTermios, modes)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("terminal: %w", err), master.Close(), slave.Close())
	}
	return master, slave, nil
}

// relay moves bytes from a pipe to a file, without copying them where the
// kernel can.
type relay struct {
	meter          *Meter
	from, to, stop int
	buffer         []byte // set where the kernel cannot
	shown          func(io.Reader) io.Reader
}

func (r *relay) run() {
	if r.shown != nil {
		r.show()
		return
	}
	for r.wait(unix.PollFd{Fd: int32(r.from), Events: unix.POLLIN}, unix.PollFd{Fd: int32(r.to)}) {
		n, err := r.move()
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) || n == 0 && err == nil {
			r.meter.refused(err)
			return
		}
	}
}

// show passes on what may reach a terminal.
func (r *relay) show() {
	r.buffer = make([]byte, copyBuffer)
	shown, to := r.shown(relayed{r}), make([]byte, copyBuffer)
	for {
		n, err := shown.Read(to)
		if err != nil && r.ended() { // nobody waits for a terminal that takes nothing
			_, _ = unix.Write(r.to, to[:n])
			return
		}
		if failed := r.write(to[:n]); failed != nil || err != nil {
			return
		}
	}
}

// ended tells that the relay has to end, and that what it prints to takes some more.
func (r *relay) ended() bool {
	fds := []unix.PollFd{{Fd: int32(r.stop)}, {Fd: int32(r.to), Events: unix.POLLOUT}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents != 0 && fds[1].Revents == unix.POLLOUT
}

// relayed reads what was printed, and counts it.
type relayed struct{ *relay }

func (r relayed) Read(p []byte) (int, error) {
	for r.wait(unix.PollFd{Fd: int32(r.from), Events: unix.POLLIN}, unix.PollFd{Fd: int32(r.to)}) {
		r.buffer = r.buffer[:min(len(p), copyBuffer)]
		n, _, err := r.take()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		return copy(p, r.buffer[:n]), nil
	}
	return 0, io.EOF
}

// wait returns when the first is ready. It is false when the relay has to end,
// or when the reader of the second is gone.
func (r *relay) wait(ready, reader unix.PollFd) bool {
	fds := []unix.PollFd{ready, {Fd: int32(r.stop)}, reader}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || fds[1].Revents != 0 || fds[2].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
			return false
		}
		return fds[0].Revents != 0
	}
}

// move passes on what is there, once the file takes it.
func (r *relay) move() (int64, error) {
	if !r.wait(unix.PollFd{Fd: int32(r.to), Events: unix.POLLOUT}, unix.PollFd{Fd: -1}) {
		return 0, unix.EPIPE
	}
	n, copied, err := r.take()
	if err != nil || !copied {
		return n, err
	}
	return n, r.write(r.buffer[:n])
}

// take counts what is there. It is passed on already, unless it was copied to
// the buffer.
func (r *relay) take() (taken int64, copied bool, err error) {
	r.meter.mu.Lock() // so that two streams together stay below the limit
	defer r.meter.mu.Unlock()
	room := r.meter.limit - r.meter.used.Load()
	if room > 0 && r.buffer == nil {
		n, err := move(r.from, r.to, int(min(room, relaySize)))
		if !errors.Is(err, unix.EINVAL) {
			_ = r.meter.count(max(n, 0)) // there was room
			return n, false, err
		}
	}
	if r.buffer == nil { // opened for appending, or of a kind that takes no pages
		r.buffer = make([]byte, copyBuffer)
	}
	n, err := unix.Read(r.from, r.buffer[:max(1, min(room, int64(len(r.buffer))))])
	if n <= 0 || err != nil {
		return int64(n), false, err
	}
	return int64(n), true, r.meter.count(int64(n))
}

// write writes all of it, also to a file that is set not to block.
func (r *relay) write(p []byte) error {
	for len(p) > 0 {
		if !r.wait(unix.PollFd{Fd: int32(r.to), Events: unix.POLLOUT}, unix.PollFd{Fd: -1}) {
			return unix.EPIPE
		}
		n, err := unix.Write(r.to, p[:min(len(p), pipeBuf)])
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return err
		}
		p = p[max(n, 0):]
	}
	return nil
}
