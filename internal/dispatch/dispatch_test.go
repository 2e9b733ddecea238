package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a dispatcher whose agents end when the test says so.
type house struct {
	t       *testing.T
	events  chan plugin.Envelope
	started chan dispatch.Order
	end     chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	dropped []string
}

func open(t *testing.T, sessions, waiting int) (*house, context.CancelFunc) {
	t.Helper()
	table, err := routing.Compile([]routing.Route{
		{Channel: "local", Group: "main"},
		{Channel: "local", Sender: "ada", Group: "main", Policy: routing.Resume, Operator: true},
		{Channel: "mail", Group: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{
		t: t, events: make(chan plugin.Envelope), started: make(chan dispatch.Order, 100), end: make(chan struct{}),
		done: make(chan struct{}),
	}
	d, err := dispatch.New(dispatch.Options{
		Table: table, Sessions: sessions, Waiting: waiting,
		Start: func(ctx context.Context, o dispatch.Order) {
			h.started <- o
			select {
			case <-h.end:
			case <-ctx.Done():
			}
		},
		Dropped: func(_ context.Context, _ dispatch.Order, reason string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.dropped = append(h.dropped, reason)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(h.done); d.Run(ctx, h.events) }()
	t.Cleanup(func() { cancel(); <-h.done })
	return h, cancel
}

func (h *house) send(channel, sender, body string) {
	payload, err := json.Marshal(map[string]any{"channel": channel, "sender": sender, "content_type": "text", "body": body, "metadata": map[string]any{}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.events <- plugin.Envelope{ID: body, Topic: events.TopicInbound, Source: channel, Payload: payload}
}

func (h *house) body(o dispatch.Order) string { return o.Message.Body }

// reasons are why events were dropped so far.
func (h *house) reasons() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.dropped)
}

// D-33: a group has so many agents at once. A message more waits, and one more than can wait is
// dropped and said so. Another group does not notice.
func TestAGroupHasItsLimits(t *testing.T) {
	h, _ := open(t, 2, 1)
	for i := range 4 {
		h.send("local", fmt.Sprint("guest", i), fmt.Sprint(i))
	}
	h.send("mail", "eve", "of another group")
	var have []string
	for range 3 {
		have = append(have, h.body(<-h.started))
	}
	slices.Sort(have)
	if want := []string{"0", "1", "of another group"}; !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	h.end <- struct{}{}
	h.end <- struct{}{}
	h.end <- struct{}{}
	if have := h.body(<-h.started); have != "2" {
		t.Errorf("have %q, want the one that waited", have)
	}
	if have := h.reasons(); len(have) != 1 {
		t.Errorf("have %q, want one that was dropped", have)
	}
}

// D-36: one conversation has one agent at a time, in the order of its messages.
func TestAConversationIsOneAtATime(t *testing.T) {
	h, _ := open(t, 3, 10)
	h.send("local", "ada", "first")
	if o := <-h.started; h.body(o) != "first" || o.Key == "" || !o.Operator {
		t.Fatalf("have %+v", o)
	}
	h.send("local", "ada", "second")
	h.send("local", "ada", "third")
	h.send("local", "bob", "somebody else")
	if o := <-h.started; h.body(o) != "somebody else" {
		t.Fatalf("have %q: it did not pass those that wait", h.body(o))
	}
	h.end <- struct{}{} // of either: both go on
	h.end <- struct{}{}
	if o := <-h.started; h.body(o) != "second" {
		t.Errorf("have %q, want the second", h.body(o))
	}
	h.end <- struct{}{}
	if o := <-h.started; h.body(o) != "third" {
		t.Errorf("have %q, want the third", h.body(o))
	}
}

// D-33: what starts nothing is dropped with its reason, or is none of ours.
func TestWhatStartsNothing(t *testing.T) {
	h, cancel := open(t, 1, 1)
	h.send("unknown", "eve", "nobody routes it")
	h.events <- plugin.Envelope{Topic: events.TopicInbound, Source: "local", Payload: json.RawMessage(`{"channel":"local"}`)}
	h.events <- plugin.Envelope{Topic: "agent.completed", Source: "core", Payload: json.RawMessage(`{}`)}
	h.events <- plugin.Envelope{Topic: events.TopicTaskTriggered, Source: "eve", Group: "main", Payload: json.RawMessage(`{}`)}
	cancel()
	<-h.done
	want := []string{string(routing.ReasonUnmatched), string(routing.ReasonMalformed), string(routing.ReasonSource)}
	if have := h.reasons(); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// D-24: at the end the agents are told, and what waits is recorded as dropped.
func TestTheEnd(t *testing.T) {
	h, cancel := open(t, 1, 5)
	h.send("local", "ada", "running")
	<-h.started
	h.send("local", "ada", "waits")
	h.send("local", "bob", "waits too")
	cancel()
	<-h.done
	if have := h.reasons(); len(have) != 2 {
		t.Errorf("have %q, want two that were dropped", have)
	}
	if len(h.started) != 0 {
		t.Error("an agent was started after the end")
	}
}

// where other machines share the work, an agent begins when it is its turn. What has to wait
// is asked for again, in the order in which it came. Another order may come before it, one of its
// own conversation too, since whoever gives turns knows what came first. Each turn that was given
// is given back.
func TestTurnsAreAskedForAgain(t *testing.T) {
	table, err := routing.Compile([]routing.Route{{Channel: "local", Sender: "ada", Group: "main", Policy: routing.Resume}, {Channel: "local", Group: "main"}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	turns := map[string]bool{"second": true}
	asked := make(chan string, 100)
	h := &house{t: t, events: make(chan plugin.Envelope), started: make(chan dispatch.Order, 100), done: make(chan struct{})}
	over := make(chan string, 100)
	d, err := dispatch.New(dispatch.Options{
		Table: table,
		Start: func(_ context.Context, o dispatch.Order) { h.started <- o },
		Turn: func(_ context.Context, o dispatch.Order) bool {
			mu.Lock()
			defer mu.Unlock()
			asked <- o.Message.Body
			return turns[o.Message.Body]
		},
		Over: func(_ context.Context, o dispatch.Order) { over <- o.Message.Body },
		Dropped: func(_ context.Context, o dispatch.Order, _ string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.dropped = append(h.dropped, o.Message.Body)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(h.done); d.Run(ctx, h.events) }()
	t.Cleanup(func() { cancel(); <-h.done })
	h.send("local", "ada", "first")
	<-asked
	h.send("local", "ada", "second")
	if have := h.body(<-h.started) + <-over; have != "secondsecond" {
		t.Fatalf("have %q", have)
	}
	h.send("local", "bob", "third")
	for have := ""; have != "third"; have = <-asked { // the first is asked for again, too
		continue
	}
	mu.Lock()
	turns["first"], turns["third"] = true, true
	mu.Unlock()
	d.Again()
	have := []string{h.body(<-h.started), h.body(<-h.started)}
	if slices.Sort(have); !slices.Equal(have, []string{"first", "third"}) {
		t.Errorf("have %q", have)
	}
	for range have {
		<-over
	}
	h.send("local", "bob", "fourth")
	for have := ""; have != "fourth"; have = <-asked {
		continue
	}
	cancel()
	<-h.done
	if have := h.reasons(); !slices.Equal(have, []string{"fourth"}) || len(over) != 0 {
		t.Errorf("have %q dropped at the end, and %d turns given back too many", have, len(over))
	}
}

func TestWhatIsRequired(t *testing.T) {
	if _, err := dispatch.New(dispatch.Options{}); err == nil {
		t.Error("a dispatcher without a table: accepted")
	}
}
