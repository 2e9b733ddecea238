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
	local "github.com/nacre-dev/nacre/plugins/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host speaks the protocol as nacre does.
type host struct {
	t        testing.TB
	dir      string
	in       *io.PipeWriter
	done     chan error
	mu       sync.Mutex
	last     int
	now      time.Time
	full     bool // publishing fails
	unrouted bool // no route takes what is published
	events   []json.RawMessage
	answers  map[string]chan plugin.Message
}

// start runs a handler. ticket is empty where no channels are served.
func start(t testing.TB, dir, ticket string) *host {
	t.Helper()
	fromHost, in := io.Pipe()
	out, toHost := io.Pipe()
	h := &host{t: t, dir: dir, in: in, done: make(chan error, 1), answers: map[string]chan plugin.Message{}, now: time.Unix(1_800_000_000, 0)}
	go func() {
		err := local.Serve(fromHost, toHost, h.clock)
		_ = toHost.Close()
		h.done <- err
	}()
	go h.read(out)
	started := h.ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "local", Config: json.RawMessage("{}"), DataDir: dir, Ticket: "T", ChannelTicket: ticket})
	if started.Error != nil {
		t.Fatal(started.Error.Message)
	}
	t.Cleanup(h.stop)
	return h
}

func (h *host) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
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
	if m.Method == plugin.MethodPublish && p.Topic == plugin.TopicInbound && p.Ticket == "C" && !h.full {
		if h.unrouted {
			return plugin.Message{ID: m.ID, Result: json.RawMessage("false")}
		}
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
