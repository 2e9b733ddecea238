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
	webhook "github.com/nacre-dev/nacre/plugins/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef0123456789abcdef"

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
	started  plugin.Message
}

// start runs a handler. ticket is empty where no channels are served.
func start(t testing.TB, dir, config, ticket string, getenv func(string) string) *host {
	t.Helper()
	h := &host{t: t, dir: dir, now: time.Unix(1_800_000_000, 0)}
	h.Host = testhost.Start(t, func(in io.Reader, out io.Writer) error { return webhook.Serve(in, out, h.clock, getenv) }, h.answers)
	h.started = h.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "webhook", Config: json.RawMessage(config), DataDir: dir, Ticket: "T", ChannelTicket: ticket})
	t.Cleanup(h.stop)
	return h
}

func (h *host) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *host) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
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
	case method == plugin.MethodCredential && asked.Key == "secret":
		return json.RawMessage(`"` + secret + `"`)
	case method == plugin.MethodCredential && asked.Key == "secret_2":
		return json.RawMessage(`"another secret of the test"`)
	case method == plugin.MethodCredential && asked.Key == "secret_3":
		return json.RawMessage(`"short"`)
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

// code is how the start failed, or "".
func (h *host) code() string {
	if h.started.Error == nil {
		return ""
	}
	if e, ok := plugin.ParseToolError(h.started.Error.Data); ok {
		return e.Code
	}
	return "error"
}

// folder is short enough for a socket's path.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wh") //nolint:usetesting // the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *host) socket() string { return filepath.Join(h.dir, plugin.ListenSocket) }
