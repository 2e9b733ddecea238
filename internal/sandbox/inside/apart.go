//go:build linux

package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/mux"
)

// runApart is [runContain] where no socket of the host's leads into the container. PID 1 takes its
// own input and output, over which it speaks with the host, and gives the agent others.
func runApart() error {
	runtime.GOMAXPROCS(containThreads)
	from, to, err := takeStreams()
	if err != nil {
		return err
	}
	opened := map[string]chan *mux.Stream{}
	for _, name := range []string{ControlStream, AgentStream, SizeStream} {
		opened[name] = make(chan *mux.Stream, 1)
	}
	session := mux.Open(lifeline{from}, to, false, func(name string, s *mux.Stream) { opened[name] <- s })
	control := <-opened[ControlStream]
	var work Apart
	if err := Receive(control, &work); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := work.offer(session); err != nil {
		return Send(control, reportOf(fmt.Errorf("sockets: %w", err)))
	}
	var output sync.WaitGroup
	connect := work.pipes
	if work.Work.Terminal {
		connect = func(agent *mux.Stream, output *sync.WaitGroup) error {
			return terminal(agent, opened[SizeStream], output)
		}
	}
	agent := <-opened[AgentStream]
	if err := connect(agent, &output); err != nil {
		return Send(control, reportOf(fmt.Errorf("streams: %w", err)))
	}
	if err := work.Work.Run(control, 0); err != nil {
		return err
	}
	_ = unix.Kill(-1, unix.SIGKILL) // what the agent left; nobody may be there
	output.Wait()
	if err := agent.CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, agent) // until the host has taken all of it
	return err
}

// takeStreams makes this program's input and output its own, which no agent gets.
func takeStreams() (from, to *os.File, err error) {
	var taken [2]int
	for fd := range taken {
		if taken[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return nil, nil, err
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	for fd := range taken {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(taken[0]), "from the host"), os.NewFile(uintptr(taken[1]), "to the host"), null.Close()
}

// lifeline is what the host says. When it ends, so does PID 1, and with it the whole sandbox.
type lifeline struct{ io.Reader }

// Read implements [io.Reader].
func (l lifeline) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err != nil {
		os.Exit(killedStatus) // any end of the stream means the same
	}
	return n, nil
}

// offer listens where the session's sockets are in every sandbox, and leads each connection to the
// host's.
func (a *Apart) offer(session *mux.Session) error {
	if len(a.Sockets) == 0 {
		return nil
	}
	if err := os.MkdirAll(a.SocketDir, 0o755); err != nil {
		return err
	}
	places := make(chan struct{}, maxForwarded)
	for _, name := range a.Sockets {
		l, err := listenPath(path.Join(a.SocketDir, path.Base(name)))
		if err != nil {
			return err
		}
		go lead(session, l, name, places)
	}
	return nil
}

func lead(session *mux.Session, l socket, name string, places chan struct{}) {
	for {
		places <- struct{}{}
		conn, err := l.accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { <-places }()
			defer func() { _ = conn.Close() }() // either way it has ended
			to, err := session.Stream(name)
			if err != nil {
				return
			}
			mux.Join(to, conn, conn.closeWrite)
		}()
	}
}

// pipes become this program's own streams, which the agent gets: they end with it. The group waits
// until what it prints is the host's.
func (a *Apart) pipes(agent *mux.Stream, output *sync.WaitGroup) error {
	if a.Input {
		in, err := redirect(0)
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(in, agent) // an agent that reads no more
			_ = in.Close()
			_, _ = io.Copy(io.Discard, agent)
		}()
	}
	to := &framed{to: agent}
	for fd := 1; fd <= 2; fd++ {
		out, err := redirect(fd)
		if err != nil {
			return err
		}
		output.Go(func() {
			_, _ = io.Copy(frames{to, byte(fd)}, out) // a host that is gone reads nothing
			_ = out.Close()
		})
	}
	return nil
}

// redirect makes one of the three streams the end of a pipe, and returns the other end.
func redirect(fd int) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, ours := w, r
	if fd == 0 {
		theirs, ours = r, w
	}
	return ours, errors.Join(unix.Dup3(int(theirs.Fd()), fd, 0), theirs.Close())
}

// framed is a stream on which output and complaints go as an engine's attached streams carry them.
type framed struct {
	mu sync.Mutex
	to io.Writer
}

type frames struct {
	*framed
	fd byte
}

// Write implements [io.Writer].
func (f frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{f.fd, 0, 0, 0}, uint32(len(p))) // of a pipe, so a few KiB
	if _, err := f.to.Write(append(head, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// terminal makes a pseudo terminal this program's controlling one, and its streams: the agent
// gets it, and the host has the other end.
func terminal(agent *mux.Stream, sizes <-chan *mux.Stream, output *sync.WaitGroup) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	master := os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return e
	}
	_, _ = unix.Setsid() // the engine may have done so
	if err := unix.IoctlSetInt(int(peer), unix.TIOCSCTTY, 0); err != nil {
		return err
	}
	for to := range 3 {
		if err := unix.Dup3(int(peer), to, 0); err != nil {
			return err
		}
	}
	go func() { _, _ = io.Copy(master, agent) }() // until it is closed
	go resize(fd, sizes)
	output.Go(func() { _, _ = io.Copy(agent, master) }) // its end is an error: the other one is closed
	return unix.Close(int(peer))
}

// resize follows the size of the host's terminal.
func resize(terminal int, sizes <-chan *mux.Stream) {
	size, said := <-sizes, make([]byte, 4)
	for {
		if _, err := io.ReadFull(size, said); err != nil {
			return
		}
		_ = unix.IoctlSetWinsize(terminal, unix.TIOCSWINSZ, &unix.Winsize{ // the old size is still a size
			Row: binary.BigEndian.Uint16(said), Col: binary.BigEndian.Uint16(said[2:]),
		})
	}
}
