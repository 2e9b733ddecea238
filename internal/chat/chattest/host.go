// Package chattest is the host's end of a chat channel in tests. It takes messages and presses as the test
// has it, and tells of cards and of how the work goes.
package chattest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testhost"
	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/plugin"
)

// Serve runs a handler, which tells how long it would have waited.
type Serve func(in io.Reader, out io.Writer, waited func(time.Duration)) error

// Options are how a handler is begun.
type Options struct {
	Channel string
	Config  string // JSON
	Dir     string // its data folder
	Ticket  string // empty where no channels are served
	Secrets map[string]string
}

// Host is the host's end of a handler. Its exported fields are changed within [Host.Change].
type Host struct {
	*testhost.Host
	t       testing.TB
	channel string
	stopped sync.Once

	mu      sync.Mutex
	Secrets map[string]string
	Busy    int // so many messages are refused
	Routed  func(sender string) bool
	About   string // what SessionInfo says
	brought
	// Decides is what the host says of a press; nil, or what it gives where that is nil, says nothing at all.
	Decides func(plugin.Press) *plugin.Pressed
	Code    string // for whoever asks to be paired
	// Commanded is what is said to whoever asks something of the host.
	Commanded func(plugin.Command) string
	waited    []time.Duration
	file      []byte // the one of the call
}

// brought is what the handler has brought.
type brought struct {
	events  []Inbound
	pressed []plugin.Press
}

// Inbound is a message that was brought.
type Inbound struct {
	Channel, Sender, Body string
	Metadata              struct{ Chat, Ref, Session string }
}

// Start runs a handler until the test ends.
func Start(t testing.TB, serve Serve, o Options) *Host {
	t.Helper()
	h := &Host{t: t, channel: o.Channel, Secrets: o.Secrets, Routed: func(string) bool { return true }, About: "{}"}
	h.Host = testhost.Start(t, func(in io.Reader, out io.Writer) error { return serve(in, out, h.wait) }, h.answers)
	h.Ask(plugin.MethodInitialize, plugin.InitializeParams{
		Protocol: 1, Plugin: nacre.PluginName(o.Channel), Config: json.RawMessage(o.Config), DataDir: o.Dir, Ticket: "T", ChannelTicket: o.Ticket,
	})
	t.Cleanup(h.Stop)
	return h
}

func (h *Host) wait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waited = append(h.waited, d)
}

// HasWaited tells whether the handler waited for at least so long.
func (h *Host) HasWaited(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waited {
		if w >= d {
			return true
		}
	}
	return false
}

// Stop ends the handler as the host does.
func (h *Host) Stop() {
	h.stopped.Do(func() {
		h.Ask(plugin.MethodShutdown, struct{}{})
		h.End()
	})
}

func (h *Host) answers(method string, asked plugin.Service) json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case method == plugin.MethodCredential && h.Secrets[asked.Key] != "":
		return json.RawMessage(fmt.Sprintf("%q", h.Secrets[asked.Key]))
	case method == plugin.MethodReadFile && asked.Argument == "file" && asked.Ticket == "T":
		part, err := json.Marshal(h.file[asked.Offset:min(asked.Offset+plugin.FilePart, int64(len(h.file)))])
		if err != nil {
			h.t.Error(err)
		}
		return part
	case method == plugin.MethodSessionInfo:
		return json.RawMessage(h.About)
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicPair && asked.Ticket == "C":
		return json.RawMessage(fmt.Sprintf("%q", h.Code))
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicCommand && asked.Ticket == "C":
		var c plugin.Command
		if err := json.Unmarshal(asked.Payload, &c); err != nil {
			h.t.Error(err)
		}
		return json.RawMessage(fmt.Sprintf("%q", h.Commanded(c)))
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicPress && asked.Ticket == "C":
		var p plugin.Press
		if err := json.Unmarshal(asked.Payload, &p); err != nil {
			h.t.Error(err)
		}
		h.pressed = append(h.pressed, p)
		if h.Decides == nil {
			return nil
		}
		done := h.Decides(p)
		if done == nil {
			return nil
		}
		raw, err := json.Marshal(done)
		if err != nil {
			h.t.Error(err)
		}
		return raw
	case method == plugin.MethodPublish && asked.Topic == plugin.TopicInbound && asked.Ticket == "C":
		var m Inbound
		if err := json.Unmarshal(asked.Payload, &m); err != nil {
			h.t.Error(err)
		}
		if h.Busy > 0 {
			h.Busy--
			return nil
		}
		if !h.Routed(m.Sender) {
			return json.RawMessage("false")
		}
		h.events = append(h.events, m)
		return json.RawMessage("true")
	}
	return nil
}

// Change changes what the host says.
func (h *Host) Change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// Taken are the messages that the host took.
func (h *Host) Taken() []Inbound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Inbound(nil), h.events...)
}

// Tells sends an event about a message.
func (h *Host) Tells(topic string, m Inbound, outcome string) {
	h.t.Helper()
	payload, err := json.Marshal(map[string]any{"outcome": outcome, "message": map[string]string{"channel": h.channel, "sender": m.Sender, "chat": m.Metadata.Chat, "ref": m.Metadata.Ref}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Tell(plugin.MethodHandleEvent, plugin.EventParams{Envelope: plugin.Envelope{Type: "event", Topic: topic, Group: nacre.Group("family"), Payload: payload}})
}

// Shows sends a card.
func (h *Host) Shows(c plugin.Card) {
	h.t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Tell(plugin.MethodHandleEvent, plugin.EventParams{Envelope: plugin.Envelope{Type: "event", Topic: plugin.TopicCard, Payload: payload}})
}

// WokenBy makes a message the one that woke the session whose calls come.
func (h *Host) WokenBy(m Inbound) {
	h.Change(func() {
		h.About = fmt.Sprintf(`{"message":{"channel":%q,"sender":%q,"ref":%q}}`, h.channel, m.Sender, m.Metadata.Ref)
	})
}

// Until waits until something holds.
func (h *Host) Until(what string, held func() bool) {
	h.t.Helper()
	testwait.Until(h.t, what, held)
}

// Send calls the tool that sends.
func (h *Host) Send(recipient, body string) string {
	raw, err := json.Marshal(map[string]string{"recipient": recipient, "body": body})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Call("family", "send_"+h.channel, raw)
}

// Once are the messages that the host took, each name once, as a host does.
func (h *Host) Once() (list []Inbound) {
	known := map[string]bool{}
	for _, m := range h.Taken() {
		if !known[m.Metadata.Ref] {
			list = append(list, m)
		}
		known[m.Metadata.Ref] = true
	}
	return list
}

// Presses are those that were brought.
func (h *Host) Presses() []plugin.Press {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]plugin.Press(nil), h.pressed...)
}

// Waits are how long the handler would have waited so far.
func (h *Host) Waits() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Duration(nil), h.waited...)
}

// Refusals is how many messages are still refused.
func (h *Host) Refusals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Busy
}

// SendFile calls the tool that sends, with a file of the project.
func (h *Host) SendFile(recipient, body, name string, content []byte) string {
	h.t.Helper()
	h.Change(func() { h.file = content })
	return h.asks("send_"+h.channel, map[string]any{"recipient": recipient, "body": body, "file": name},
		map[string]plugin.File{"file": {Name: name, Bytes: int64(len(content))}})
}

// ReadFile calls the tool that reads a file of a message.
func (h *Host) ReadFile(chat, file string, offset int64, as string) string {
	h.t.Helper()
	return h.asks("read_"+h.channel+"_file", map[string]any{"chat": chat, "file": file, "offset": offset, "as": as}, nil)
}

func (h *Host) asks(tool string, arguments map[string]any, files map[string]plugin.File) string {
	return testhost.Said(h.Ask(plugin.MethodHandleRequest, map[string]any{"ticket": "T", "timeout_ms": 30_000, "files": files, "envelope": map[string]any{
		"topic": "tool.invoke." + tool, "group": "family", "payload": map[string]any{"arguments": arguments},
	}}))
}

// Named is how the n-th file of a message is named, as the message says it; empty where it says
// that it cannot be read.
func Named(m Inbound, n int) string {
	name := fmt.Sprintf("%s/%d", m.Metadata.Ref, n)
	if !strings.Contains(m.Body, `"`+name+`"]`) {
		return ""
	}
	return name
}
