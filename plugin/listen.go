package plugin

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// retake is how often a listener looks whether its socket has to be taken again.
const retake = time.Second

// Listen listens at [ListenSocket] in a handler's data folder, of which path is the name. Several
// processes may serve one installation, and a reload starts the new handler before the old one has
// ended. Whoever listens last has the socket, and those before keep the connections they have. When
// the one that has it is gone without a word, one that still listens takes it again within a few
// seconds. Nobody but the folder's owner can connect. Close leaves the name in its place: it may be
// another process's.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	taken, err := takeSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &socket{path: path, addr: taken.Addr(), conns: make(chan net.Conn), ended: life.Done(), end: end}
	s.working.Go(func() { s.keep(life, taken) })
	return s, nil
}

// socket is a listener that outlives others at the same name.
type socket struct {
	path    string
	addr    net.Addr
	conns   chan net.Conn
	ended   <-chan struct{}
	end     context.CancelFunc
	working sync.WaitGroup
}

// Accept implements net.Listener.
func (s *socket) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *socket) Close() error {
	s.end()
	s.working.Wait()
	return nil
}

// Addr implements net.Listener.
func (s *socket) Addr() net.Addr { return s.addr }

// ownSocket is the socket as this process made it.
type ownSocket struct {
	*net.UnixListener
	file os.FileInfo
}

func takeSocket(ctx context.Context, path string) (ownSocket, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ownSocket{}, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return ownSocket{}, err
	}
	own := ownSocket{UnixListener: l.(*net.UnixListener)} //nolint:forcetypeassert // "unix" gives no other
	own.SetUnlinkOnClose(false)
	if err = os.Chmod(path, 0o600); err == nil {
		own.file, err = os.Lstat(path)
	}
	if err != nil {
		return ownSocket{}, errors.Join(err, l.Close())
	}
	return own, nil
}

// keep hands over connections, and takes the socket again where nobody else has it.
func (s *socket) keep(ctx context.Context, own ownSocket) {
	tick := time.NewTicker(retake)
	defer tick.Stop()
	var accepting sync.WaitGroup
	defer accepting.Wait()
	for {
		serving, stop := context.WithCancel(ctx)
		accepting.Go(func() { s.accept(serving, own) })
		next, again := s.retake(ctx, own, tick.C)
		stop()
		_ = own.Close() // accept ends by it
		if !again {
			return
		}
		own = next
	}
}

func (s *socket) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			select { // no descriptor is left
			case <-time.After(retake):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return
		}
		select {
		case s.conns <- c:
		case <-s.ended:
			_ = c.Close() // nobody takes it any more
		}
	}
}

// retake waits until the socket is nobody's, and takes it. It reports false when
// ctx ends first.
func (s *socket) retake(ctx context.Context, own ownSocket, tick <-chan time.Time) (ownSocket, bool) {
	for {
		select {
		case <-ctx.Done():
			return ownSocket{}, false
		case <-tick:
		}
		if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, own.file) || s.alive(ctx) {
			continue
		}
		if next, err := takeSocket(ctx, s.path); err == nil {
			return next, true
		}
	}
}

// alive tells whether somebody listens at the name. What cannot be told is left alone.
func (s *socket) alive(ctx context.Context) bool {
	c, err := (&net.Dialer{Timeout: retake}).DialContext(ctx, "unix", s.path)
	if err == nil {
		_ = c.Close() // it was only looked at
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}
