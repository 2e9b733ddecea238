package socket_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/socket"
)

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	t.Chdir(filepath.Dir(path)) // a socket's own path may be no longer than 103 bytes
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Base(path), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// D-12: identity comes from the listener.
func TestTheOtherEndIsThisUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, path)
	conn, err := socket.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	accepted, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	if user, err := socket.User(accepted); err != nil || int(user) != os.Geteuid() {
		t.Errorf("have user %d, %v", user, err)
	}
}

// What somebody else put in the socket's place is not followed.
func TestOnlyASocketIsConnectedTo(t *testing.T) {
	dir := t.TempDir()
	listen(t, filepath.Join(dir, "s"))
	if err := os.Symlink("s", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "", "file": "not a socket", "none": "no such file"} {
		conn, err := socket.Dial(t.Context(), filepath.Join(dir, name))
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}
