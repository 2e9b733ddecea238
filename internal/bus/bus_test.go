package bus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/plugin"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bus with what its host would give it.
type world struct {
	*bus.Bus
	mu    sync.Mutex
	drops []bus.Drop
	// dropped has a token for each drop that was told, as long as there is room.
	dropped chan bus.Drop
}

func open(t testing.TB) *world {
	t.Helper()
	w := &world{dropped: make(chan bus.Drop, 1<<10)}
	var ids atomic.Int64
	var err error
	w.Bus, err = bus.New(bus.Deps{
		Now:   func() time.Time { return time.Date(2026, 2, 17, 10, 30, 0, 0, time.UTC) },
		NewID: func() string { return "e-" + strconv.FormatInt(ids.Add(1), 10) },
		Redact: func(document []byte) ([]byte, []string) {
			return bytes.ReplaceAll(document, []byte("hunter2"), []byte("[secret]")), nil
		},
		Dropped: func(d bus.Drop) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.drops = append(w.drops, d)
			select {
			case w.dropped <- d:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func (w *world) publish(t testing.TB, topic, source, payload string) {
	t.Helper()
	if _, err := w.Publish(t.Context(), bus.Event{Topic: topic, Source: source, Group: "main", Payload: json.RawMessage(payload)}); err != nil {
		t.Error(err)
	}
}

func (w *world) all(t testing.TB, queue int, prefixes ...string) *bus.Subscription {
	t.Helper()
	s, err := w.Subscribe(bus.Filter{Name: "test", Prefixes: prefixes, AllGroups: true, Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rest is what a subscriber gets until the end.
func rest(s *bus.Subscription) []plugin.Envelope {
	var list []plugin.Envelope
	for e := range s.Events() {
		list = append(list, e)
	}
	return list
}

func topics(list []plugin.Envelope) string {
	var names []string
	for _, e := range list {
		names = append(names, e.Topic)
	}
	return strings.Join(names, " ")
}

const inbound = `{"channel":"local","sender":"ada","content_type":"text","body":"hi"}`

// D-05: the core alone builds the envelope.
func TestTheEnvelopeIsTheCores(t *testing.T) {
	w := open(t)
	s := w.all(t, 1, "")
	w.publish(t, "task.created", "core", `{"task_id":"t","note":"hunter2"}`)
	w.Close()
	have, err := json.Marshal(rest(s)[0])
	want := `{"id":"e-1","version":1,"type":"event","topic":"task.created","source":"core","correlation":null,` +
		`"timestamp":"2026-02-17T10:30:00Z","group":"main","payload":{"task_id":"t","note":"[secret]"}}`
	if err != nil || string(have) != want {
		t.Errorf("have %s, %v, want %s", have, err, want)
	}
}

// What is published stays as it was, whatever its publisher does with its bytes after.
func TestAPublishersBytesAreItsOwn(t *testing.T) {
	w := open(t)
	s := w.all(t, 1, "")
	payload := []byte(`{"n":1}`)
	if _, err := w.Publish(t.Context(), bus.Event{Topic: "ci.done", Source: "ci", Payload: payload}); err != nil {
		t.Fatal(err)
	}
	payload[5] = '2'
	w.Close()
	if have := string(rest(s)[0].Payload); have != `{"n":1}` {
		t.Errorf("have %s", have)
	}
}

// A message keeps the addresses it is routed by, and who starts its agent is told what was written.
// Everybody else gets it without the secrets.
func TestSecretsAndAddressesOfAMessage(t *testing.T) {
	w := open(t)
	raw, err := w.Subscribe(bus.Filter{Name: "raw", Prefixes: []string{"message"}, AllGroups: true, Queue: 1, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	s := w.all(t, 1, "")
	const payload = `{"channel":"local","sender":"hunter2","content_type":"text","body":"it is hunter2","metadata":{"chat":"hunter2","x":"hunter2"}}`
	w.publish(t, "message.inbound", "local", payload)
	w.Close()
	if have := string(rest(raw)[0].Payload); have != payload {
		t.Errorf("have %s, want it as it was", have)
	}
	want := `{"channel":"local","sender":"hunter2","content_type":"text","body":"it is [secret]","metadata":{"chat":"hunter2","x":"[secret]"}}`
	if have := string(rest(s)[0].Payload); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

// D-32: each topic of the seed can be published by whom it belongs to.
func TestEveryTopicOfTheSeedIsPublished(t *testing.T) {
	w := open(t)
	s := w.all(t, len(events.Topics()), "")
	for _, topic := range events.Topics() {
		source, payload := "core", `{}`
		if topic == events.TopicInbound {
			source, payload = "local", inbound
		}
		w.publish(t, topic, source, payload)
	}
	w.Close()
	if have, want := topics(rest(s)), strings.Join(events.Topics(), " "); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	w := open(t)
	s := w.all(t, 100, "")
	long := strings.Repeat("a", 64)
	for name, e := range map[string]bus.Event{
		"no topic":                          {Source: "ci", Payload: []byte(`{}`)},
		"a topic of one part":               {Topic: "ci", Source: "ci", Payload: []byte(`{}`)},
		"a topic in capitals":               {Topic: "ci.Done", Source: "ci", Payload: []byte(`{}`)},
		"a topic with an empty part":        {Topic: "ci..done", Source: "ci", Payload: []byte(`{}`)},
		"a topic that ends with a dot":      {Topic: "ci.done.", Source: "ci", Payload: []byte(`{}`)},
		"a topic with a look-alike":         {Topic: "сi.done", Source: "ci", Payload: []byte(`{}`)},
		"a topic with a line break":         {Topic: "ci.done\n", Source: "ci", Payload: []byte(`{}`)},
		"a topic of nine parts":             {Topic: "a.b.c.d.e.f.g.h.i", Source: "ci", Payload: []byte(`{}`)},
		"a topic of 129 bytes":              {Topic: long + "." + long, Source: "ci", Payload: []byte(`{}`)},
		"an unknown topic of agents":        {Topic: "agent.paused", Source: "core", Payload: []byte(`{}`)},
		"a topic below one of the core's":   {Topic: "task.triggered.now", Source: "core", Payload: []byte(`{}`)},
		"a request's topic":                 {Topic: "tool.invoke.x", Source: "core", Payload: []byte(`{}`)},
		"the question's topic":              {Topic: "confirmation.pending", Source: "core", Payload: []byte(`{}`)},
		"a plugin that speaks of tasks":     {Topic: "task.triggered", Source: "ci", Payload: []byte(`{}`)},
		"a plugin that speaks of agents":    {Topic: "agent.completed", Source: "ci", Payload: []byte(`{}`)},
		"a plugin that speaks of plugins":   {Topic: "plugin.ready", Source: "ci", Payload: []byte(`{}`)},
		"the core as a channel":             {Topic: "message.inbound", Source: "core", Payload: []byte(inbound)},
		"the core with a plugin's topic":    {Topic: "ci.done", Source: "core", Payload: []byte(`{}`)},
		"a message that is none":            {Topic: "message.inbound", Source: "local", Payload: []byte(`{}`)},
		"no source":                         {Topic: "ci.done", Payload: []byte(`{}`)},
		"a source with a space":             {Topic: "ci.done", Source: "c i", Payload: []byte(`{}`)},
		"a group with a space":              {Topic: "ci.done", Source: "ci", Group: "a b", Payload: []byte(`{}`)},
		"no payload":                        {Topic: "ci.done", Source: "ci"},
		"white space for a payload":         {Topic: "ci.done", Source: "ci", Payload: []byte(" ")},
		"a payload that is a list":          {Topic: "ci.done", Source: "ci", Payload: []byte(`[]`)},
		"a payload with something after it": {Topic: "ci.done", Source: "ci", Payload: []byte(`{}{}`)},
		"a payload with a key twice":        {Topic: "ci.done", Source: "ci", Payload: []byte(`{"a":1,"a":2}`)},
		"a payload that is too large":       {Topic: "ci.done", Source: "ci", Payload: []byte(`{"a":"` + strings.Repeat("x", bus.MaxPayload) + `"}`)},
		"a payload that is too deep":        {Topic: "ci.done", Source: "ci", Payload: []byte(`{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`)},
	} {
		if _, err := w.Publish(t.Context(), e); err == nil {
			t.Errorf("%s: have it published", name)
		}
	}
	w.Close()
	if have := rest(s); len(have) != 0 {
		t.Errorf("have %v, want nothing on the bus", have)
	}
}

// D-32: a prefix ends where a part of a topic does.
func TestPrefixes(t *testing.T) {
	for _, test := range []struct {
		topic, prefix string
		want          bool
	}{
		{"task.created", "", true}, {"task.created", "task", true}, {"task.created", "task.", true}, {"task.created", "task.created", true},
		{"task.created", "task.create", false}, {"tasks.x", "task", false}, {"task.created", "task.created.", false},
		{"task.created.x", "task.created", true}, {"task", "task.", false}, {"ci.done", "task", false}, {"task.created", "t", false},
	} {
		if have := events.HasPrefix(test.topic, test.prefix); have != test.want {
			t.Errorf("%q under %q: have %v", test.topic, test.prefix, have)
		}
	}
	for prefix, want := range map[string]bool{
		"": true, "task": true, "task.": true, "message.inbound": true, "a-b.c_d.": true,
		".": false, ".task": false, "task..": false, "Task": false, "task.*": false, "a b": false, strings.Repeat("a.", 9): false,
	} {
		if err := events.CheckPrefix(prefix); (err == nil) != want {
			t.Errorf("%q: have %v, want %v", prefix, err, want)
		}
	}
}

// A prefix of whole parts means what it says for any topic.
func TestAPrefixIsWholeParts(t *testing.T) {
	part := rapid.StringMatching(`[ab]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.SliceOfN(part, 1, 4).Draw(t, "topic")
		prefix := rapid.SliceOfN(part, 1, 4).Draw(t, "prefix")
		want := len(prefix) <= len(topic) && slices.Equal(topic[:len(prefix)], prefix)
		if have := events.HasPrefix(strings.Join(topic, "."), strings.Join(prefix, ".")); have != want {
			t.Fatalf("%v under %v: have %v, want %v", topic, prefix, have, want)
		}
	})
}

// D-33: a subscriber gets its groups' events only.
func TestGroups(t *testing.T) {
	w := open(t)
	for _, group := range []string{"", "one", "two"} {
		sub := func(groups ...nacre.Group) *bus.Subscription {
			s, err := w.Subscribe(bus.Filter{Name: "s", Prefixes: []string{"ci"}, Groups: groups, Queue: 9})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		own, both, installation := sub("one"), sub("one", "two"), sub("")
		if _, err := w.Publish(t.Context(), bus.Event{Topic: "ci.done", Source: "ci", Group: nacre.Group(group), Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*bus.Subscription{own, both, installation} {
			s.Close()
			s.Close() // is nothing
		}
		have := fmt.Sprint(len(rest(own)), len(rest(both)), len(rest(installation)))
		if want := map[string]string{"": "0 0 1", "one": "1 1 0", "two": "0 1 0"}[group]; have != want {
			t.Errorf("group %q: have %s, want %s", group, have, want)
		}
	}
}

func TestSubscriptionsThatSayTooLittleAreRefused(t *testing.T) {
	w := open(t)
	for name, f := range map[string]bus.Filter{
		"no name":              {Prefixes: []string{""}, AllGroups: true, Queue: 1},
		"no prefixes":          {Name: "s", AllGroups: true, Queue: 1},
		"no groups":            {Name: "s", Prefixes: []string{""}, Queue: 1},
		"no queue":             {Name: "s", Prefixes: []string{""}, AllGroups: true},
		"a queue without end":  {Name: "s", Prefixes: []string{""}, AllGroups: true, Queue: bus.MaxQueue + 1},
		"a malformed prefix":   {Name: "s", Prefixes: []string{"*"}, AllGroups: true, Queue: 1},
		"prefixes without end": {Name: "s", Prefixes: make([]string, events.MaxPrefixes+1), AllGroups: true, Queue: 1},
	} {
		if _, err := w.Subscribe(f); err == nil {
			t.Errorf("%s: have a subscription", name)
		}
	}
	if _, err := bus.New(bus.Deps{}); err == nil {
		t.Error("have a bus without dependencies")
	}
}

// D-32: who does not take its events loses them, is told of in the records, and
// holds up nobody.
func TestASlowSubscriberLosesItsOwnEventsOnly(t *testing.T) {
	w := open(t)
	slow, quick := w.all(t, 2, ""), w.all(t, 100, "")
	for range 100 {
		w.publish(t, "ci.done", "ci", `{}`)
	}
	w.Close()
	if have := len(rest(quick)); have != 100 {
		t.Errorf("have %d of 100 events", have)
	}
	if have, lost := len(rest(slow)), slow.Dropped(); have != 2 || lost != 98 {
		t.Errorf("have %d events and %d lost, want 2 and 98", have, lost)
	}
	var counts []uint64
	for _, d := range w.drops {
		if d.Who != "test" || d.Topic != "ci.done" || d.Group != "main" || d.Reason != bus.DropQueue {
			t.Errorf("have %+v", d)
		}
		counts = append(counts, d.Count)
	}
	if want := []uint64{1, 2, 4, 8, 16, 32, 64}; !slices.Equal(counts, want) {
		t.Errorf("have records at %v, want %v", counts, want)
	}
}

// Events of one publisher keep their order, however many publish beside it.
func TestTheOrderOfEachPublisherIsKept(t *testing.T) {
	w := open(t)
	const publishers, events = 8, 200
	s := w.all(t, publishers*events, "")
	var all sync.WaitGroup
	for p := range publishers {
		name := fmt.Sprintf("p%d", p)
		all.Go(func() {
			for n := range events {
				w.publish(t, name+".n", name, fmt.Sprintf(`{"n":%d}`, n))
			}
		})
	}
	all.Wait()
	w.Close()
	next := map[string]int{}
	for _, e := range rest(s) {
		if want := fmt.Sprintf(`{"n":%d}`, next[e.Source]); string(e.Payload) != want {
			t.Fatalf("%s: have %s, want %s", e.Source, e.Payload, want)
		}
		next[e.Source]++
	}
	if len(next) != publishers {
		t.Errorf("have %v", next)
	}
}

// Whoever publishes, subscribes and closes at once, nothing is sent after the end.
func TestEverybodyAtOnce(t *testing.T) {
	w := open(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				_, err := w.Publish(t.Context(), bus.Event{Topic: "ci.done", Source: "ci", Payload: []byte(`{}`)})
				if err != nil && !errors.Is(err, bus.ErrClosed) {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				s, err := w.Subscribe(bus.Filter{Name: "s", Prefixes: []string{"ci"}, AllGroups: true, Queue: 1})
				if err != nil {
					return
				}
				s.Close()
				rest(s)
			}
			w.Close()
		})
	}
	all.Wait()
	if _, err := w.Publish(t.Context(), bus.Event{Topic: "ci.done", Source: "ci", Payload: []byte(`{}`)}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("have %v, want the bus closed", err)
	}
	if _, err := w.Subscribe(bus.Filter{Name: "s", Prefixes: []string{""}, AllGroups: true, Queue: 1}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("have %v, want the bus closed", err)
	}
}

// Close drains: what waited for a subscriber still comes.
func TestCloseDrains(t *testing.T) {
	w := open(t)
	s := w.all(t, 3, "")
	for range 3 {
		w.publish(t, "ci.done", "ci", `{}`)
	}
	w.Close()
	if have := len(rest(s)); have != 3 {
		t.Errorf("have %d events after the end, want 3", have)
	}
}

// Whoever is told of a drop may use the bus: to publish it, or to end the
// subscription that cannot keep up.
func TestWhoIsToldOfADropMayUseTheBus(t *testing.T) {
	var b *bus.Bus
	var slow *bus.Subscription
	told := 0
	b, err := bus.New(bus.Deps{
		Now: time.Now, NewID: func() string { return "e" }, Redact: func(d []byte) ([]byte, []string) { return d, nil },
		Dropped: func(bus.Drop) { told++; slow.Close() },
	})
	if err != nil {
		t.Fatal(err)
	}
	slow, err = b.Subscribe(bus.Filter{Name: "slow", Prefixes: []string{""}, AllGroups: true, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := b.Publish(t.Context(), bus.Event{Topic: "ci.done", Source: "ci", Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if have := len(rest(slow)); have != 1 || told != 1 {
		t.Errorf("have %d events, told %d times", have, told)
	}
}
