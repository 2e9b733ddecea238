package assembly_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/assembly"
)

// patience is how long a test waits for what is about to happen.
const patience = 10 * time.Second

// loopback is a free port of this machine.
func loopback() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:0") }

// echo listens on a socket like a handler and says what it is told.
func echo(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
}

func listenFor(t *testing.T, ctx context.Context, dir string) *assembly.PluginListener {
	t.Helper()
	l, err := assembly.ListenFor(ctx, "hook", loopback(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// say connects, says a text, ends its own side and gives what came back.
func say(t *testing.T, to net.Addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, text) // refused ones are closed already
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// D-21: a plugin takes connections through the host, and has no address of its own.
func TestConnectionsReachTheHandlersSocket(t *testing.T) {
	dir := t.TempDir()
	l := listenFor(t, t.Context(), dir)
	if have := say(t, l.Addr(), "too early"); have != "" {
		t.Errorf("have %q while no handler listens", have)
	}
	echo(t, filepath.Join(dir, "listen.sock"))
	for _, want := range []string{"hello", ""} {
		if have := say(t, l.Addr(), want); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

// What a handler puts in the place of its socket leads nowhere else.
func TestNothingButTheHandlersOwnSocketIsReached(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "other.sock")
	echo(t, elsewhere)
	for name, put := range map[string]func(path string) error{
		"a link to another socket": func(path string) error { return os.Symlink(elsewhere, path) },
		"a file":                   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a folder":                 func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to nothing":        func(path string) error { return os.Symlink("/nowhere", path) },
		"a link to itself":         func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := put(filepath.Join(dir, "listen.sock")); err != nil {
				t.Fatal(err)
			}
			l := listenFor(t, t.Context(), dir)
			if have := say(t, l.Addr(), "hello"); have != "" {
				t.Errorf("have %q", have)
			}
		})
	}
}

func TestClosingAListenerEndsItsConnections(t *testing.T) {
	dir := t.TempDir()
	echo(t, filepath.Join(dir, "listen.sock"))
	ctx, cancel := context.WithCancel(t.Context())
	l := listenFor(t, ctx, dir)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	l.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection is still open")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestAListenerThatCannotListenSaysWhatToDo(t *testing.T) {
	first := listenFor(t, t.Context(), t.TempDir())
	taken := netip.MustParseAddrPort(first.Addr().String())
	for _, address := range []netip.AddrPort{taken, {}} {
		if l, err := assembly.ListenFor(t.Context(), "hook", address, t.TempDir()); err == nil {
			l.Close()
			t.Errorf("%s was taken", address)
		}
	}
}

// D-21: so many connections at once, and no more, until one of them ends.
func TestAListenerHandsOverSoManyConnectionsAtOnce(t *testing.T) {
	const limit = 256
	dir := t.TempDir()
	echo(t, filepath.Join(dir, "listen.sock"))
	l := listenFor(t, t.Context(), dir)
	var open []net.Conn
	for range limit {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("connection %d: %v", len(open), err)
		}
		open = append(open, conn)
	}
	if have := say(t, l.Addr(), "one more"); have != "" {
		t.Errorf("the one beyond the limit: have %q", have)
	}
	_ = open[0].Close()
	for end := time.Now().Add(patience); say(t, l.Addr(), "again") != "again"; {
		if time.Now().After(end) {
			t.Fatal("nobody is let in after one has left")
		}
	}
	if _, err := io.WriteString(open[limit-1], "y"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(open[limit-1], make([]byte, 1)); err != nil {
		t.Errorf("those that were there go on: %v", err)
	}
}
