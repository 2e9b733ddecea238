package pluginhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// published collects what reaches the bus.
type published struct {
	mu  sync.Mutex
	all []string
}

func (p *published) publish(_ context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(string(payload), "stranger") {
		return plugin.ErrDropped
	}
	p.all = append(p.all, fmt.Sprintf("%s|%s|%s|%s %s", s.Plugin, s.Channel, s.Group, topic, payload))
	return nil
}

func (p *published) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.all = nil }()
	return strings.Join(p.all, "\n")
}

// D-26, D-33: what a channel may publish, and what a request may.
func TestPublish(t *testing.T) {
	o := options(t)
	o.DataRoot, o.Channels = shortDir(t), true
	var bus published
	o.Services.Publish = bus.publish
	h := channel(t, "channel", o)
	big := `{"channel":"post","body":"` + strings.Repeat("x", 70<<10) + `"}`
	for name, c := range map[string]struct{ tool, topic, payload, want string }{
		"a message":                        {"receive", "message.inbound", `{"channel":"post","body":"hi"}`, `p|post||message.inbound {"channel":"post","body":"hi"}`},
		"a message of the other channel":   {"receive", "message.inbound", `{"channel":"letter"}`, `p|letter||message.inbound {"channel":"letter"}`},
		"a message without a route":        {"receive", "message.inbound", `{"channel":"post","sender":"stranger"}`, ""},
		"a channel of somebody else":       {"receive", "message.inbound", `{"channel":"telegram"}`, ""},
		"no channel":                       {"receive", "message.inbound", `{"body":"hi"}`, ""},
		"a channel that is no text":        {"receive", "message.inbound", `{"channel":["post"]}`, ""},
		"two channels":                     {"receive", "message.inbound", `{"channel":"post","channel":"letter"}`, ""},
		"two channels in two cases":        {"receive", "message.inbound", `{"channel":"post","Channel":"letter"}`, ""},
		"a list":                           {"receive", "message.inbound", `["post"]`, ""},
		"too much":                         {"receive", "message.inbound", big, ""},
		"the core's topic":                 {"receive", "agent.started", `{"channel":"post"}`, ""},
		"the plugin's topic by a channel":  {"receive", "p.note", `{"channel":"post"}`, ""},
		"below message.inbound":            {"receive", "message.inbound.x", `{"channel":"post"}`, ""},
		"the plugin's topic":               {"publish", "p.note.added", `{"n":1}`, `p||family|p.note.added {"n":1}`},
		"a message in a request's name":    {"publish", "message.inbound", `{"channel":"post"}`, ""},
		"the core's topic by a request":    {"publish", "task.triggered", `{}`, ""},
		"another plugin's topic":           {"publish", "q.note", `{}`, ""},
		"a plugin of the same beginning":   {"publish", "pq.note", `{}`, ""},
		"the plugin's name alone":          {"publish", "p", `{}`, ""},
		"the plugin's name and a dot":      {"publish", "p.", `{}`, ""},
		"an empty word":                    {"publish", "p..x", `{}`, ""},
		"capitals":                         {"publish", "p.Note", `{}`, ""},
		"a line in the topic":              {"publish", "p.a\nb", `{}`, ""},
		"a long topic":                     {"publish", "p." + strings.Repeat("x", 200), `{}`, ""},
		"a payload that is no object":      {"publish", "p.note", `1`, ""},
		"a payload that is null":           {"publish", "p.note", `null`, ""},
		"a payload that is larger than so": {"publish", "p.note", big, ""},
	} {
		args, err := json.Marshal(map[string]any{"topic": c.topic, "payload": json.RawMessage(c.payload)})
		if err != nil {
			t.Fatal(err)
		}
		said, err := h.call(t.Context(), c.tool, string(args))
		if have := bus.take(); err != nil || have != c.want || (said == `"published"`) != (c.want != "") {
			t.Errorf("%s: have %s, %s, %v\nwant %s", name, have, said, err, c.want)
		}
	}
}

// D-26: a channel's ticket serves nothing else, and no request's ticket outlives its request.
func TestTicketsForTheWrongThing(t *testing.T) {
	o := options(t)
	o.Channels = true
	var bus published
	o.Services.Publish = bus.publish
	o.Services.AuditLog = nil
	h := channel(t, "raw", o)
	if _, err := h.call(t.Context(), "lifelong", `{}`); err != nil {
		t.Fatal(err)
	}
	h.records.await(t, "plugin.ready", "")
	var answers string
	for range 100 {
		answers, _ = h.call(t.Context(), "answered", `{}`)
		if strings.Count(answers, "30") >= 3 {
			break
		}
	}
	if have := bus.take(); have != "" || strings.Contains(answers, "true") || strings.Count(answers, "-32001") < 3 {
		t.Errorf("published %q, answered %s", have, answers)
	}
}

// D-33: without a host that serves channels there is no ticket for them.
func TestNoChannels(t *testing.T) {
	o := options(t)
	o.DataRoot = shortDir(t)
	var bus published
	o.Services.Publish = bus.publish
	h := channel(t, "channel", o)
	said, err := h.call(t.Context(), "receive", `{"topic":"message.inbound","payload":{"channel":"post"}}`)
	if err != nil || !strings.Contains(said, "serves no channels") || bus.take() != "" {
		t.Errorf("have %s, %v", said, err)
	}
}

// A channel's ticket reads credentials for as long as the process lives, and no more than so many
// calls a minute, among which messages of strangers do not count.
func TestChannelsCredentialAndRate(t *testing.T) {
	o := options(t)
	o.DataRoot, o.Channels = shortDir(t), true
	at := time.Unix(0, 0)
	var mu sync.Mutex
	o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return at }
	var bus published
	o.Services.Publish = bus.publish
	o.Services.Credential = func(context.Context, nacre.PluginName, string) (nacre.Secret, error) {
		return nacre.NewSecret("s"), nil
	}
	h := channel(t, "channel", o)
	if have, err := h.call(t.Context(), "credential", `{}`); err != nil || have != `"s"` {
		t.Errorf("have %s, %v", have, err)
	}
	from := func(sender string) string {
		said, err := h.call(t.Context(), "receive", `{"topic":"message.inbound","payload":{"channel":"post","sender":"`+sender+`"}}`)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	send := func() string { return from("ada") }
	for range 700 { // of whom no route takes anything
		if have := from("stranger"); strings.Contains(have, "at most") {
			t.Fatalf("a stranger uses up what others have: %s", have)
		}
	}
	n := 0
	for send() == `"published"` {
		if n++; n > 10_000 {
			t.Fatal("no limit")
		}
	}
	if n != 599 {
		t.Errorf("%d messages and a credential in a minute", n)
	}
	// F-71: who wrote can be told why, and so can whoever reads the records.
	const why = "at most 600 messages and credentials of a channel in a minute"
	if have := send(); !strings.Contains(have, why) {
		t.Errorf("have %s, want %q in it", have, why)
	}
	h.records.await(t, "plugin.fault", why)
	mu.Lock()
	at = at.Add(time.Minute)
	mu.Unlock()
	if have := send(); have != `"published"` {
		t.Errorf("a minute later: have %s", have)
	}
}
