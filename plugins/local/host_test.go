package main_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/testhost"
	"github.com/nacre-dev/nacre/plugin"
	local "github.com/nacre-dev/nacre/plugins/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is the host's end of the handler.
type host struct {
	*testhost.Host
	t       testing.TB
	dir     string
	mu      sync.Mutex
	stopped sync.Once
	now     time.Time
	full    bool // publishing fails
	// unrouted says that no route takes what is published.
	unrouted bool
	events   []json.RawMessage
	// channel and ref name ada's message that woke the session which calls.
	channel, ref string
}

func (h *host) woken(ref string) { h.wokenOn("local", ref) }

func (h *host) wokenOn(channel, ref string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.channel, h.ref = channel, ref
}

// start runs a handler. ticket is empty where no channels are served.
func start(t testing.TB, dir, ticket string) *host {
	t.Helper()
	h := &host{t: t, dir: dir, now: time.Unix(1_800_000_000, 0)}
	h.Host = testhost.Start(t, func(in io.Reader, out io.Writer) error { return local.Serve(in, out, h.clock) }, h.answers)
	m := h.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "local", Config: json.RawMessage("{}"), DataDir: dir, Ticket: "T", ChannelTicket: ticket})
	if m.Error != nil {
		t.Fatal(m.Error.Message)
	}
	t.Cleanup(h.stop)
	return h
}

func (h *host) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// stop shuts the handler down, once.
func (h *host) stop() {
	h.stopped.Do(func() {
		h.Ask(plugin.MethodShutdown, struct{}{})
		h.End()
	})
}

// answers is what a handler may ask.
func (h *host) answers(method string, asked plugin.Service) json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case method == plugin.MethodSessionInfo && h.ref != "":
		return json.RawMessage(`{"group":"main","message":{"channel":"` + h.channel + `","sender":"ada","chat":"","ref":"` + h.ref + `"}}`)
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicInbound && asked.Ticket == "C" && h.unrouted:
		return json.RawMessage("false")
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicInbound && asked.Ticket == "C" && !h.full:
		h.events = append(h.events, asked.Payload)
		return json.RawMessage("true")
	}
	return nil
}

func (h *host) published() []json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// folder is short enough for a socket's path.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc") //nolint:usetesting // the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *host) socket() string { return filepath.Join(h.dir, plugin.ListenSocket) }
