package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/mux"
	"github.com/nacre-dev/nacre/internal/socket"
)

// far is the way to a PID 1 that no socket of this machine leads to: its own input and output
// carry many streams.
type far struct {
	attached  attached
	session   *mux.Session
	complaint complaint
	sockets   []string // that PID 1 may connect to
	leading   sync.WaitGroup
	read      chan struct{} // closed when nothing more comes
}

// complaint is the beginning of what PID 1 says on its standard error.
type complaint struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer]. It takes everything.
func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(p[:min(len(p), max(0, maxLog-c.text.Len()))])
	return len(p), nil
}

func (c *complaint) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return printable(string(bytes.TrimSpace(c.text.Bytes())))
}

// openFar speaks over a container's attached streams. PID 1 may connect to the sockets of a
// folder, and to nothing else.
func openFar(ctx context.Context, a attached, dir string) (*far, error) {
	sockets, err := socketNames(dir)
	if err != nil {
		return nil, err
	}
	f := &far{attached: a, sockets: sockets, read: make(chan struct{})}
	from, fill := io.Pipe()
	f.session = mux.Open(from, a, true, func(name string, s *mux.Stream) {
		f.leading.Go(func() { lead(ctx, s, dir, name, sockets) })
	})
	go func() {
		defer close(f.read)
		_, err := stdcopy.StdCopy(fill, &f.complaint, a.Reader)
		_ = fill.CloseWithError(err) // the end of the streams where it is nil
	}()
	return f, nil
}

// lead connects a stream of PID 1's to the session's socket that it names.
func lead(ctx context.Context, s *mux.Stream, dir, name string, sockets []string) {
	defer func() { _ = s.Close() }()
	if !slices.Contains(sockets, name) {
		return
	}
	conn, err := socket.Dial(ctx, filepath.Join(dir, name))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	mux.Join(s, conn, func() {
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // it may be gone
		}
	})
}

// close ends all streams, and waits until nothing is carried any more.
func (f *far) close() {
	f.session.Close()
	_ = f.attached.Close()
	<-f.read
	f.leading.Wait()
}

// agent are the agent's streams, as an engine attaches them.
func (f *far) agent() (attached, error) {
	s, err := f.session.Stream(inside.AgentStream)
	if err != nil {
		return attached{}, err
	}
	return attached{muxed{s, f.attached.Conn}, bufio.NewReader(s)}, nil
}

// muxed is one of the streams of a connection.
type muxed struct {
	*mux.Stream
	net.Conn // whose addresses it has
}

func (m muxed) Read(p []byte) (int, error)  { return m.Stream.Read(p) }
func (m muxed) Write(p []byte) (int, error) { return m.Stream.Write(p) }

// SetReadDeadline is of this stream alone.
func (m muxed) SetReadDeadline(at time.Time) error { return m.Stream.SetReadDeadline(at) }

// Close ends this stream alone.
func (m muxed) Close() error { return m.Stream.Close() }

// CloseWrite tells the agent that there is no more input.
func (m muxed) CloseWrite() error { return m.Stream.CloseWrite() }

// sizes returns what tells PID 1 of a terminal's size.
func (f *far) sizes() (func(height, width uint), error) {
	s, err := f.session.Stream(inside.SizeStream)
	if err != nil {
		return nil, err
	}
	return func(height, width uint) {
		said := binary.BigEndian.AppendUint16(nil, uint16(height))         // the kernel has 16 bits for it
		_, _ = s.Write(binary.BigEndian.AppendUint16(said, uint16(width))) // an error leaves the old size, which is still one
	}, nil
}

// socketNames are the sockets of a session's folder.
func socketNames(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// unchanged refuses binds whose paths lead elsewhere than when they were checked: the engine has
// opened them by name meanwhile, and PID 1 sees other numbers than this machine's.
func (l *layout) unchanged() error {
	for _, e := range l.entries {
		if e.kind != kindBind {
			continue
		}
		info, err := os.Lstat(e.source.Path())
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		dev, ino := e.source.File()
		if !ok || uint64(stat.Dev) != dev || stat.Ino != ino { //nolint:unconvert // narrower on some systems
			return fmt.Errorf("%s: it is not any more what was checked: refused", e.source.Path())
		}
	}
	return nil
}

// handshakeFar hands PID 1 its work over the attached streams and waits until the agent runs.
func (p *process) handshakeFar(ctx context.Context, c sandbox.Command, l *layout, work inside.Container) error {
	stop := context.AfterFunc(ctx, p.far.session.Close)
	defer stop()
	if err := l.unchanged(); err != nil {
		return err
	}
	control, err := p.far.session.Stream(inside.ControlStream)
	if err != nil {
		return err
	}
	p.control = control
	if err := inside.Send(control, inside.Apart{Work: work, SocketDir: nacre.SocketDir, Sockets: p.far.sockets, Input: c.Stdin != nil}); err != nil {
		return err
	}
	err = p.hear(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the container ended before it started its agent")
	}
	return err
}
