package plugin_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/plugin"
)

// answers accepts connections and says a name on each, until the listener is closed.
func answers(t *testing.T, path, name string) (end func()) {
	t.Helper()
	l, err := plugin.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				done <- err
				return
			}
			_, _ = c.Write([]byte(name)) // whoever only looked is gone
			_ = c.Close()
		}
	}()
	return func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// at is who answers at a socket; nobody where nobody does.
func at(path string) string {
	c, err := net.Dial("unix", path)
	if err != nil {
		return "nobody"
	}
	defer func() { _ = c.Close() }()
	name := make([]byte, 16)
	n, _ := c.Read(name)
	return string(name[:n])
}

// D-33: the last one to listen has the socket; when it is gone without a word, one
// that still listens has it again.
func TestTheSocketIsTakenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), plugin.ListenSocket)
	endFirst := answers(t, path, "first")
	if have := at(path); have != "first" {
		t.Errorf("have %s", have)
	}
	endSecond := answers(t, path, "second")
	if have := at(path); have != "second" {
		t.Errorf("have %s", have)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v, %v", info, err)
	}
	endSecond() // its name stays, as when it is killed
	testwait.Until(t, "the first to take the socket over", func() bool { return at(path) == "first" })
	endFirst()
	if have := at(path); have != "nobody" {
		t.Errorf("have %s", have)
	}
}
