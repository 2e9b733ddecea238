package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/socket"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// maxListened is how many connections one plugin is handed at once.
	maxListened = 256
	// listenIdle is how long a connection may be silent in both directions.
	listenIdle = 5 * time.Minute
	// listenDial is how long the handler may take to accept one.
	listenDial = 10 * time.Second
	// listenPause is how long accepting rests when the machine has no descriptor left.
	listenPause = 50 * time.Millisecond
)

// PluginListener hands the TCP connections of one address to one plugin.
type PluginListener struct {
	listener net.Listener
	socket   string
	name     nacre.PluginName
	end      context.CancelFunc
	served   chan struct{}
}

// ListenFor accepts connections at the operator's address, until ctx ends or Close is called. It
// forwards their bytes to the socket that the plugin's handler listens on in its data folder. What
// the handler puts in the place of the socket is not followed: a connection for which there is none
// is closed. At most 256 connections are open at once, and each for at most five minutes of
// silence.
func ListenFor(ctx context.Context, name nacre.PluginName, address netip.AddrPort, dataDir string) (*PluginListener, error) {
	if !address.IsValid() {
		return nil, config.Errorf("plugin %s: no address to listen at: write listen in [access.%s]", name, name)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, &installation.NotReady{What: "listen for plugin " + string(name), Next: fmt.Sprintf("name another address: listen in [access.%s]", name), Err: err}
	}
	ctx, end := context.WithCancel(ctx)
	l := &PluginListener{listener: listener, socket: filepath.Join(dataDir, plugin.ListenSocket), name: name, end: end, served: make(chan struct{})}
	go l.serve(ctx)
	return l, nil
}

// Addr is where it listens.
func (l *PluginListener) Addr() net.Addr { return l.listener.Addr() }

// Close ends all connections and returns when they are gone.
func (l *PluginListener) Close() {
	l.end()
	<-l.served
}

func (l *PluginListener) serve(ctx context.Context) {
	defer close(l.served)
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.listener.Close() }) // accept then fails, which ends the loop
	defer stop()
	slots := make(chan struct{}, maxListened)
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !Paused(ctx, listenPause) {
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			conns.Go(func() {
				defer func() { <-slots }()
				forwardTo(ctx, conn, l.socket)
			})
		default:
			_ = conn.Close() // over the limit
		}
	}
}

// Paused waits, and reports false when ctx ends meanwhile.
func Paused(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// forwardTo carries one connection, and closes it at its end.
func forwardTo(ctx context.Context, conn net.Conn, path string) {
	defer func() { _ = conn.Close() }()
	handler, err := dialHandler(ctx, path)
	if err != nil {
		return
	}
	defer func() { _ = handler.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = handler.Close() })
	defer stop()
	var last atomic.Int64
	var copying sync.WaitGroup
	copying.Go(func() { pass(handler, conn, &last) })
	pass(conn, handler, &last)
	copying.Wait()
}

// pass copies one direction to its end, and then says so to the other side. It
// ends both where neither direction has had a byte for too long.
func pass(to, from net.Conn, last *atomic.Int64) {
	buffer := make([]byte, 32<<10)
	last.Store(time.Now().UnixNano())
	for {
		_ = from.SetReadDeadline(time.Unix(0, last.Load()).Add(listenIdle))
		n, err := from.Read(buffer)
		if n > 0 {
			last.Store(time.Now().UnixNano())
			_ = to.SetWriteDeadline(time.Now().Add(listenIdle))
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				_, _ = from.Close(), to.Close()
				return
			}
		}
		if silent(err) && time.Since(time.Unix(0, last.Load())) < listenIdle {
			continue // the other direction was not silent
		}
		if errors.Is(err, io.EOF) {
			closeWrite(to)
			return
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func silent(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be gone
	}
}

// dialHandler connects to the handler's socket, in a folder that the handler can write to.
func dialHandler(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenDial)
	defer cancel()
	return socket.Dial(ctx, path)
}
