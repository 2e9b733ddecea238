package bus_test

import (
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// pythonWithZMQ finds an interpreter that has libzmq: the system's own package
// belongs to the system's own interpreter, which need not be the first in PATH.
func pythonWithZMQ(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import zmq").Run() == nil {
			return python
		}
	}
	testpeer.Missing(t, "zeromq", "no python3 can import zmq (Debian: python3-zmq)")
	return ""
}

// endpoints serves both kinds, on unix sockets or on TCP.
func (w *world) endpoints(t *testing.T, network string) (events, publisher string) {
	t.Helper()
	if network == "ipc" {
		path, _ := w.servePub(t, bus.Limits{})
		return "ipc://" + path, "ipc://" + w.servePublisher(t, ci(), bus.Limits{})
	}
	serve := func(do func(ctx context.Context, ln net.Listener) error) string {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- do(ctx, ln) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return "tcp://" + ln.Addr().String()
	}
	events = serve(func(ctx context.Context, ln net.Listener) error { return w.ServePub(ctx, ln, bus.Limits{}) })
	return events, serve(func(ctx context.Context, ln net.Listener) error {
		return w.ServePublisher(ctx, ln, ci(), bus.Limits{})
	})
}

func runPeer(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, program, args...)
	var failed strings.Builder
	script.Stderr = &failed
	out, err := script.Output()
	if err != nil {
		t.Fatalf("have %v, %s", err, failed.String())
	}
	return out
}

// D-32: libzmq itself as subscriber and as publisher.
func TestLibzmq(t *testing.T) {
	python := pythonWithZMQ(t)
	for _, network := range []string{"ipc", "tcp"} {
		t.Run(network, func(t *testing.T) {
			w := open(t)
			events, publisher := w.endpoints(t, network)
			out := runPeer(t, python, "testdata/peers.py", events, publisher)
			var seen map[string]json.RawMessage
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("have %v of %.500s", err, out)
			}
			refused := seen["refused"]
			delete(seen, "refused")
			have, err := json.Marshal(seen)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"asked":"\u0001ci.","big":204800,"claims":["ci","main",false,{"n":1}],` +
				`"envelope":{"version":1,"type":"event","topic":"ci.probe","source":"ci","correlation":null,"group":"main"},` +
				`"frames":[2,"ci.probe"],"late":true,"only":"ci.only","ordered":true,"twice":[1]}`
			if string(have) != want {
				t.Errorf("have %s\nwant %s", have, want)
			}
			var sent []bool
			if err := json.Unmarshal(refused, &sent); err != nil || len(sent) != 14 || slices.Contains(sent, false) {
				t.Errorf("have %s, want every other kind of socket sent away", refused)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			reasons := map[bus.DropReason]bool{}
			for _, d := range w.drops {
				reasons[d.Reason] = true
			}
			for _, want := range []bus.DropReason{bus.DropVersion, bus.DropInvalid, bus.DropSize, bus.DropProtocol} {
				if !reasons[want] {
					t.Errorf("have %v, want %q told", reasons, want)
				}
			}
		})
	}
}

// D-32: npm's zeromq as subscriber and as publisher.
func TestNodeZeromq(t *testing.T) {
	folder := testpeer.Need(t, "zeromq")
	w := open(t)
	events, publisher := w.endpoints(t, "ipc")
	out := runPeer(t, testpeer.Able(t, "node", "-e", "require(process.argv[1])", filepath.Join(folder, "node_modules", "zeromq")), "testdata/peers.cjs", events, publisher, folder)
	want := `{"topic":"ci.probe","envelope":[1,"event","ci","main",null],"ordered":true,"claim":["ci","main",7],"only":true}`
	if have := strings.TrimSpace(string(out)); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}
