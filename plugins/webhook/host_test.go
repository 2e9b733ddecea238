package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/plugin"
	webhook "github.com/nacre-dev/nacre/plugins/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef0123456789abcdef"

// host speaks the protocol as nacre does.
type host struct {
	t    testing.TB
	dir  string
	in   *io.PipeWriter
	done chan error
	mu   sync.Mutex
	last int
	now  time.Time
	full bool // publishing fails
	// unrouted says that no route takes what is published.
	unrouted bool
	events   []json.RawMessage
	answers  map[string]chan plugin.Message
	started  plugin.Message
}

// start runs a handler. ticket is empty where no channels are served.
func start(t testing.TB, dir, config, ticket string, getenv func(string) string) *host {
	t.Helper()
	fromHost, in := io.Pipe()
	out, toHost := io.Pipe()
	h := &host{t: t, dir: dir, in: in, done: make(chan error, 1), answers: map[string]chan plugin.Message{}, now: time.Unix(1_800_000_000, 0)}
	go func() {
		err := webhook.Serve(fromHost, toHost, h.clock, getenv)
		_ = toHost.Close()
		h.done <- err
	}()
	go h.read(out)
	h.started = h.ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "webhook", Config: json.RawMessage(config), DataDir: dir, Ticket: "T", ChannelTicket: ticket})
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

func (h *host) stop() {
	if h.in == nil {
		return
	}
	h.ask(plugin.MethodShutdown, struct{}{})
	_ = h.in.Close()
	if err := <-h.done; err != nil {
		h.t.Error(err)
	}
	h.in = nil
}

func (h *host) ask(method string, params any) plugin.Message {
	raw, err := json.Marshal(params)
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	h.last++
	id := strconv.Itoa(h.last)
	answer := make(chan plugin.Message, 1)
	h.answers[id] = answer
	h.mu.Unlock()
	h.send(plugin.Message{ID: json.RawMessage(id), Method: method, Params: raw})
	return <-answer
}

func (h *host) send(m plugin.Message) {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err == nil {
		_, err = h.in.Write(append(line, '\n'))
	}
	if err != nil {
		h.t.Error(err)
	}
}

func (h *host) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var m plugin.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			h.t.Error(err)
			return
		}
		if m.Method == "" {
			h.mu.Lock()
			answer := h.answers[string(m.ID)]
			h.mu.Unlock()
			answer <- m
			continue
		}
		go h.send(h.serve(m))
	}
}

// serve answers what a handler may ask.
func (h *host) serve(m plugin.Message) plugin.Message {
	var p plugin.Service
	if err := json.Unmarshal(m.Params, &p); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	refusal := plugin.Message{ID: m.ID, Error: &plugin.RPCError{Code: plugin.RPCRefused, Message: "no"}}
	switch {
	case m.Method == plugin.MethodCredential && p.Key == "secret":
		return plugin.Message{ID: m.ID, Result: json.RawMessage(`"` + secret + `"`)}
	case m.Method == plugin.MethodCredential && p.Key == "secret_2":
		return plugin.Message{ID: m.ID, Result: json.RawMessage(`"another secret of the test"`)}
	case m.Method == plugin.MethodCredential && p.Key == "secret_3":
		return plugin.Message{ID: m.ID, Result: json.RawMessage(`"short"`)}
	case m.Method == plugin.MethodPublish && h.unrouted:
		return plugin.Message{ID: m.ID, Result: json.RawMessage("false")}
	case m.Method == plugin.MethodPublish && p.Topic == plugin.TopicInbound && p.Ticket == "C" && !h.full:
		h.events = append(h.events, p.Payload)
		return plugin.Message{ID: m.ID, Result: json.RawMessage("true")}
	}
	return refusal
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
