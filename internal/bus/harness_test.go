package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

// patience is how long a test waits for what must come; it is never what is measured.
const patience = 20 * time.Second

// listen opens a unix socket whose path is short enough anywhere.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nb") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the system's temporary folder is emptied anyway
	path := filepath.Join(dir, "s")
	ln, err := bus.Listen(context.Background(), netip.AddrPort{}, path)
	if err != nil {
		t.Fatal(err)
	}
	return ln, path
}

// start runs serve until stop is called, which waits for it; the test's end does so too.
func start(t testing.TB, serve func(ctx context.Context, ln net.Listener) error) (path string, stop func()) {
	t.Helper()
	ln, path := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); served.Wait() }
	t.Cleanup(stop)
	return path, stop
}

func (w *world) servePub(t testing.TB, l bus.Limits) (path string, stop func()) {
	return start(t, func(ctx context.Context, ln net.Listener) error { return w.ServePub(ctx, ln, l) })
}

func ci() events.Publisher {
	return events.Publisher{Name: "ci", Group: "main", Prefixes: []string{"ci."}}
}

func (w *world) servePublisher(t testing.TB, p events.Publisher, l bus.Limits) string {
	path, _ := start(t, func(ctx context.Context, ln net.Listener) error { return w.ServePublisher(ctx, ln, p, l) })
	return path
}

// drop waits for an account of a drop for the reason.
func (w *world) drop(t testing.TB, reason bus.DropReason) bus.Drop {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case d := <-w.dropped:
			if d.Reason == reason {
				return d
			}
		case <-late:
			t.Fatalf("nothing was dropped for %q", reason)
		}
	}
}

// client is a peer of the test's own.
type client struct {
	net.Conn
	t testing.TB
	r *zmtp.Reader
}

func dial(t testing.TB, path string) *client {
	t.Helper()
	nc, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() }) // closed already where the test did
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: nc, t: t, r: zmtp.NewReader(nc, 1<<20)}
}

func (c *client) send(frames []byte) {
	c.t.Helper()
	if _, err := c.Write(frames); err != nil {
		c.t.Fatal(err)
	}
}

func greeting(minor byte) []byte {
	g := zmtp.AppendGreeting(nil)
	g[11] = minor
	return g
}

func ready(kind string) []byte {
	return zmtp.AppendReady(nil, zmtp.Property{Name: zmtp.SocketType, Value: kind})
}

// join is a handshake as ZMTP 3.minor.
func join(t testing.TB, path, kind string, minor byte) *client {
	t.Helper()
	c := dial(t, path)
	c.send(append(greeting(minor), ready(kind)...))
	if err := c.r.Greeting(); err != nil {
		t.Fatal(err)
	}
	if item, err := c.r.Next(); err != nil || item.Command != zmtp.Ready {
		t.Fatalf("have %+v, %v, want READY", item, err)
	}
	return c
}

// settle returns when the host has read all that was sent before.
func (c *client) settle() {
	c.t.Helper()
	c.send(zmtp.AppendCommand(nil, zmtp.Ping, []byte("\x00\x00here")))
	for {
		item, err := c.r.Next()
		if err != nil {
			c.t.Fatal(err)
		}
		if item.Command == zmtp.Pong {
			return
		}
	}
}

// subscriber is a SUB that has subscribed.
func subscriber(t testing.TB, path string, minor byte, prefixes ...string) *client {
	t.Helper()
	c := join(t, path, "SUB", minor)
	for _, prefix := range prefixes {
		c.send(zmtp.AppendSubscription(nil, zmtp.Version{Major: 3, Minor: minor}, prefix, true))
	}
	c.settle()
	return c
}

// next is the topic and the envelope of the next event.
func (c *client) next() (topic, envelope string) {
	c.t.Helper()
	item, err := c.r.Next()
	if err != nil || len(item.Parts) != 2 {
		c.t.Fatalf("have %+v, %v, want two frames", item, err)
	}
	return string(item.Parts[0]), string(item.Parts[1])
}

// gone waits until the host has ended the connection.
func (c *client) gone() {
	c.t.Helper()
	_, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("the connection is open still")
	}
}
