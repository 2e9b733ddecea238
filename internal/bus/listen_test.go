package bus_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/events"
)

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		text string
		open bool
		want string
	}{
		{"", false, "ipc"}, {"ipc", false, "ipc"}, {"tcp://127.0.0.1:5556", false, "tcp://127.0.0.1:5556"}, {"tcp://127.0.0.1:5556", true, "tcp://127.0.0.1:5556"},
		{"tcp://[::1]:5556", false, "tcp://[::1]:5556"}, {"tcp://127.9.9.9:1", false, "tcp://127.9.9.9:1"},
		{"tcp://[::ffff:127.0.0.1]:5556", false, "tcp://127.0.0.1:5556"},
		{"tcp://192.0.2.1:5556", true, "tcp://192.0.2.1:5556"}, {"tcp://0.0.0.0:5556", true, "tcp://0.0.0.0:5556"},
		{"tcp://192.0.2.1:5556", false, "open = true"}, {"tcp://0.0.0.0:5556", false, "open = true"}, {"tcp://[::]:5556", false, "open = true"},
		{"tcp://[::ffff:192.0.2.1]:5556", false, "open = true"}, {"ipc", true, "open = true"},
		{"tcp://localhost:5556", false, "write ipc"}, {"tcp://127.0.0.1", false, "write ipc"}, {"tcp://127.0.0.1:0", false, "write ipc"},
		{"tcp://*:5556", true, "write ipc"}, {"tcp://[fe80::1%eth0]:5556", true, "write ipc"}, {"127.0.0.1:5556", false, "write ipc"},
		{"ipc:///tmp/x", false, "write ipc"}, {"tcp://127.0.0.1:99999", false, "write ipc"}, {"TCP://127.0.0.1:1", false, "write ipc"},
	} {
		at, err := events.ParseAddress(test.text, test.open)
		have := at.String()
		if err != nil {
			have = err.Error()
		}
		if !strings.Contains(have, test.want) {
			t.Errorf("%q, open %v: have %s, want %s", test.text, test.open, have, test.want)
		}
	}
}

// A live socket is nobody else's to take, a dead one is replaced.
func TestListen(t *testing.T) {
	first, path := listen(t)
	if ln, err := bus.Listen(context.Background(), netip.AddrPort{}, path); err == nil || !strings.Contains(err.Error(), "another nacre serve") {
		t.Errorf("have %v, %v, want it held", ln, err)
	}
	if err := bus.Sweep([]string{path}); err != nil {
		t.Error(err)
	}
	nc, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatalf("have %v, want a live socket left alone", err)
	}
	_ = nc.Close() // done
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v, %v, want it for its user alone", info, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 0 {
		t.Errorf("have %v left", left)
	}
	dead(t, path)
	again, err := bus.Listen(context.Background(), netip.AddrPort{}, path)
	if err != nil {
		t.Fatalf("have %v, want a dead socket replaced", err)
	}
	_ = again.Close() // done
	dead(t, path)
	if err := bus.Sweep([]string{path, path + "-never"}); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 0 {
		t.Errorf("have %v left by a sweep", left)
	}
}

// dead leaves a socket as a process does that was killed.
func dead(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close() // dead
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestListenRefusesWhatItCannotHold(t *testing.T) {
	dir := t.TempDir()
	if _, err := bus.Listen(context.Background(), netip.AddrPort{}, filepath.Join(dir, strings.Repeat("x", 120))); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("have %v, want a path that is too long refused", err)
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // done
	at, err := events.ParseAddress("tcp://"+taken.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Listen(context.Background(), at.TCP, ""); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("have %v, want a port that is taken refused", err)
	}
	if err := os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "s.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Listen(context.Background(), netip.AddrPort{}, filepath.Join(dir, "s")); err == nil {
		t.Error("have a lock through a link")
	}
}
