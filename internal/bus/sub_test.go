package bus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"github.com/nacre-dev/nacre/plugin"
)

// after returns what came before the event that ends a test's events.
func after(t testing.TB, s *bus.Subscription, last string) (list []plugin.Envelope) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case e := <-s.Events():
			if e.Topic == last {
				return list
			}
			list = append(list, e)
		case <-late:
			t.Fatalf("%s did not come", last)
		}
	}
}

const envelope = `{"id":"theirs","version":1,"type":"event","topic":"ci.done","source":"core","correlation":null,` +
	`"timestamp":"1999-01-01T00:00:00Z","group":"other","payload":{"n":1}}`

// D-32, D-05: what a publisher says arrives; what it says of itself does not.
func TestAPublisherIsWhoItsListenerSays(t *testing.T) {
	for name, body := range map[string]string{
		"a payload":                        `{"n":1}`,
		"an envelope with other claims":    envelope,
		"an envelope of two fields":        `{"version":1,"payload":{"n":1},"source":"core","group":"other"}`,
		"white space around":               " {\"n\":1}\n",
		"a payload with a secret":          `{"n":1,"key":"hunter2"}`,
		"a payload with a version of text": `{"n":1,"version":"2.3.1"}`,
		"a payload with version 1":         `{"n":1,"version":1}`,
		"a payload that claims a group":    `{"n":1,"group":"other","source":"core"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			s := w.all(t, 10, "")
			p := join(t, w.servePublisher(t, ci(), bus.Limits{}), "PUB", 1)
			p.send(append(zmtp.AppendMessage(nil, []byte("ci.done"), []byte(body)), zmtp.AppendMessage(nil, []byte("ci.last"), []byte(`{}`))...))
			list := after(t, s, "ci.last")
			if len(list) != 1 {
				t.Fatalf("have %d events, %+v", len(list), w.drops)
			}
			e := list[0]
			if e.ID != "e-1" || e.Source != "ci" || e.Group != "main" || e.Topic != "ci.done" || e.Type != "event" || e.Version != 1 || e.Timestamp.Year() != 2026 {
				t.Errorf("have %+v", e)
			}
			if payload := strings.TrimSpace(string(e.Payload)); !strings.HasPrefix(payload, `{"n":1`) || strings.Contains(payload, "hunter2") {
				t.Errorf("have %s", payload)
			}
		})
	}
}

// D-32, D-05, D-33: what is refused is accounted for, and what comes next is taken.
func TestWhatAPublisherMayNotSayIsDropped(t *testing.T) {
	message := func(channel string) string {
		return `{"channel":"` + channel + `","sender":"ada","content_type":"text","body":"hi"}`
	}
	for name, test := range map[string]struct {
		frames []string
		want   bus.DropReason
	}{
		"one frame":                        {[]string{"ci.done"}, bus.DropInvalid},
		"three frames":                     {[]string{"ci.done", "{}", "{}"}, bus.DropInvalid},
		"more frames than are kept":        {make([]string, 40), bus.DropSize},
		"a topic of the core's":            {[]string{"task.triggered", "{}"}, bus.DropTopic},
		"a topic of another's":             {[]string{"reminders.due", "{}"}, bus.DropTopic},
		"a topic that begins like its own": {[]string{"cix.done", "{}"}, bus.DropTopic},
		"its prefix alone":                 {[]string{"ci.", "{}"}, bus.DropTopic},
		"no topic":                         {[]string{"", "{}"}, bus.DropTopic},
		"a topic in capitals":              {[]string{"ci.DONE", "{}"}, bus.DropTopic},
		"a topic that is too long":         {[]string{"ci." + strings.Repeat("x", 300), "{}"}, bus.DropTopic},
		"a topic with a line break":        {[]string{"ci.done\n", "{}"}, bus.DropTopic},
		"a message of another channel":     {[]string{"message.inbound", message("local")}, bus.DropTopic},
		"a message that is none":           {[]string{"message.inbound", "{}"}, bus.DropInvalid},
		"no payload":                       {[]string{"ci.done", ""}, bus.DropInvalid},
		"a payload that is no JSON":        {[]string{"ci.done", "{"}, bus.DropInvalid},
		"a payload that is null":           {[]string{"ci.done", "null"}, bus.DropInvalid},
		"a payload that is a list":         {[]string{"ci.done", "[]"}, bus.DropInvalid},
		"a payload of broken bytes":        {[]string{"ci.done", "{\"a\":\"\xff\"}"}, bus.DropInvalid},
		"a key twice":                      {[]string{"ci.done", `{"version":1,"version":2,"payload":{}}`}, bus.DropInvalid},
		"an envelope of version 2":         {[]string{"ci.done", strings.Replace(envelope, `"version":1`, `"version":2`, 1)}, bus.DropVersion},
		"an envelope of version 0":         {[]string{"ci.done", `{"version":0,"payload":{}}`}, bus.DropVersion},
		"an envelope of version 1.0":       {[]string{"ci.done", `{"version":1.0,"payload":{}}`}, bus.DropVersion},
		"an envelope of version 1e0":       {[]string{"ci.done", `{"version":1e0,"payload":{}}`}, bus.DropVersion},
		"an envelope of version -1":        {[]string{"ci.done", `{"version":-1,"payload":{}}`}, bus.DropVersion},
		"an envelope of version null":      {[]string{"ci.done", `{"version":null,"payload":{}}`}, bus.DropVersion},
		"an envelope of version \"1\"":     {[]string{"ci.done", `{"version":"1","payload":{}}`}, bus.DropVersion},
		"a payload with version 2":         {[]string{"ci.done", `{"version":2,"n":1}`}, bus.DropVersion},
		"an envelope without a payload":    {[]string{"ci.done", `{"version":1,"type":"event"}`}, bus.DropInvalid},
		"an envelope with another topic":   {[]string{"ci.done", strings.Replace(envelope, "ci.done", "ci.other", 1)}, bus.DropInvalid},
		"an envelope with a key too many":  {[]string{"ci.done", `{"version":1,"payload":{},"extra":1}`}, bus.DropInvalid},
		"an envelope whose payload is 1":   {[]string{"ci.done", `{"version":1,"payload":1}`}, bus.DropInvalid},
		"a payload over the limit":         {[]string{"ci.done", `{"a":"` + strings.Repeat("x", bus.MaxPayload) + `"}`}, bus.DropInvalid},
		"a message over the limit":         {[]string{"ci.done", strings.Repeat("x", 1<<20)}, bus.DropSize},
		"a payload that is too deep":       {[]string{"ci.done", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)}, bus.DropInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			s := w.all(t, 10, "")
			p := ci()
			p.Prefixes = append(p.Prefixes, "message.inbound")
			c := join(t, w.servePublisher(t, p, bus.Limits{}), "PUB", 1)
			var parts [][]byte
			for _, f := range test.frames {
				parts = append(parts, []byte(f))
			}
			c.send(zmtp.AppendMessage(nil, parts...))
			c.send(zmtp.AppendMessage(nil, []byte("ci.last"), []byte(`{}`)))
			if have := after(t, s, "ci.last"); len(have) != 0 {
				t.Errorf("have %+v on the bus", have)
			}
			if d := w.drop(t, test.want); d.Who != "ci" || d.Count != 1 || strings.ContainsAny(d.Topic, "\n ") || len(d.Detail) > 300 {
				t.Errorf("have %+v", d)
			}
		})
	}
}

// What an outsider sends is redacted even for who gets the rest as it was.
func TestOutsidersAreRedactedForEverybody(t *testing.T) {
	w := open(t)
	s, err := w.Subscribe(bus.Filter{Name: "raw", Prefixes: []string{""}, AllGroups: true, Queue: 1, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, w.servePublisher(t, ci(), bus.Limits{}), "PUB", 1)
	c.send(zmtp.AppendMessage(nil, []byte("ci.done"), []byte(`{"key":"hunter2"}`)))
	if e := <-s.Events(); string(e.Payload) != `{"key":"[secret]"}` {
		t.Errorf("have %s", e.Payload)
	}
}

// D-33: a publisher that may is the channel of its own name.
func TestAPublisherCanBeAChannel(t *testing.T) {
	w := open(t)
	s := w.all(t, 10, "")
	p := events.Publisher{Name: "pager", Group: "ops", Prefixes: []string{"message.inbound"}}
	c := join(t, w.servePublisher(t, p, bus.Limits{}), "XPUB", 1)
	c.send(zmtp.AppendMessage(nil, []byte("message.inbound"), []byte(strings.Replace(inbound, "local", "pager", 1))))
	if e := <-s.Events(); e.Source != "pager" || e.Group != "ops" || e.Topic != "message.inbound" {
		t.Errorf("have %+v", e)
	}
}

func TestPublishersThatSayTooMuchAreRefused(t *testing.T) {
	for name, p := range map[string]events.Publisher{
		"no name":                  {Group: "main", Prefixes: []string{"ci."}},
		"the core's name":          {Name: "core", Group: "main", Prefixes: []string{"ci."}},
		"a word of the core's":     {Name: "agent", Group: "main", Prefixes: []string{"ci."}},
		"a name in capitals":       {Name: "CI", Group: "main", Prefixes: []string{"ci."}},
		"a name that climbs":       {Name: "../ci", Group: "main", Prefixes: []string{"ci."}},
		"no group":                 {Name: "ci", Prefixes: []string{"ci."}},
		"no topics":                {Name: "ci", Group: "main"},
		"every topic":              {Name: "ci", Group: "main", Prefixes: []string{""}},
		"all messages":             {Name: "ci", Group: "main", Prefixes: []string{"message."}},
		"all messages, by a word":  {Name: "ci", Group: "main", Prefixes: []string{"message"}},
		"tasks":                    {Name: "ci", Group: "main", Prefixes: []string{"task.triggered"}},
		"agents":                   {Name: "ci", Group: "main", Prefixes: []string{"agent"}},
		"tools":                    {Name: "ci", Group: "main", Prefixes: []string{"tool."}},
		"a malformed prefix":       {Name: "ci", Group: "main", Prefixes: []string{"ci.*"}},
		"below messages":           {Name: "ci", Group: "main", Prefixes: []string{"message.inbound."}},
		"a prefix that is a comma": {Name: "ci", Group: "main", Prefixes: []string{"ci.", ","}},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%s: have it accepted", name)
		}
	}
	p := ci()
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// The host asks for the publisher's prefixes, as the peer's version has it.
func TestTheHostSubscribesOnConnect(t *testing.T) {
	for _, minor := range []byte{0, 1} {
		w := open(t)
		p := events.Publisher{Name: "ci", Group: "main", Prefixes: []string{"ci.", "build"}}
		c := join(t, w.servePublisher(t, p, bus.Limits{}), "PUB", minor)
		for _, want := range p.Prefixes {
			item, err := c.r.Next()
			prefix, on, ok := zmtp.Subscription(item)
			if err != nil || !ok || !on || string(prefix) != want || (item.Command != "") != (minor == 1) {
				t.Errorf("3.%d: have %+v, %v, want a subscription to %s", minor, item, err, want)
			}
		}
		c.settle() // a PING is answered
	}
}

// A publisher's connections have a limit, and a second listener is another publisher.
func TestPublishersAreApart(t *testing.T) {
	w := open(t)
	s := w.all(t, 10, "")
	one := w.servePublisher(t, events.Publisher{Name: "one", Group: "a", Prefixes: []string{"x."}}, bus.Limits{Peers: 1})
	two := w.servePublisher(t, events.Publisher{Name: "two", Group: "b", Prefixes: []string{"x."}}, bus.Limits{})
	a, b := join(t, one, "PUB", 1), join(t, two, "PUB", 1)
	if _, err := a.r.Next(); err != nil { // it has its place
		t.Fatal(err)
	}
	join(t, one, "PUB", 1).gone()
	w.drop(t, bus.DropPeers)
	for _, c := range []*client{a, b} {
		c.send(zmtp.AppendMessage(nil, []byte("x.y"), []byte(`{"source":"one","group":"a"}`)))
		e := <-s.Events()
		if have, want := e.Source+string(e.Group), map[*client]string{a: "onea", b: "twob"}[c]; have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

// A message that was begun has to end in time.
func TestAMessageThatHangsIsCut(t *testing.T) {
	w := open(t)
	c := join(t, w.servePublisher(t, ci(), bus.Limits{Message: time.Millisecond}), "PUB", 1)
	c.send([]byte{1, 7, 'c', 'i'})
	c.gone()
	if d := w.drop(t, bus.DropSlow); d.Who != "ci" {
		t.Errorf("have %+v", d)
	}
}

// A flood of what is refused is a handful of records.
func TestAFloodOfDropsIsAHandfulOfRecords(t *testing.T) {
	w := open(t)
	s := w.all(t, 10, "")
	c := join(t, w.servePublisher(t, ci(), bus.Limits{}), "PUB", 1)
	var flood []byte
	for i := range 5000 {
		flood = zmtp.AppendMessage(flood, fmt.Appendf(nil, "x.n%d", i), []byte("{}"))
	}
	c.send(zmtp.AppendMessage(flood, []byte("ci.last"), []byte("{}")))
	after(t, s, "ci.last")
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := len(w.drops); have != 13 || w.drops[12].Count != 4096 {
		t.Errorf("have %d records", have)
	}
}

// Once the bus is closed the publisher's endpoint ends too.
func TestAPublishersEndpointEndsWithTheBus(t *testing.T) {
	w := open(t)
	c := join(t, w.servePublisher(t, ci(), bus.Limits{}), "PUB", 1)
	w.Close()
	c.gone()
}

// FuzzPublisher looks for bytes of a publisher that end anything but its own
// connection, or that put on the bus what is not its own.
func FuzzPublisher(f *testing.F) {
	for _, bad := range garbage() {
		f.Add(bad)
	}
	hello := append(greeting(1), ready("PUB")...)
	for _, m := range []string{`{"n":1}`, envelope, `{"version":2,"payload":{}}`} {
		f.Add(append(hello[:len(hello):len(hello)], zmtp.AppendMessage(nil, []byte("ci.done"), []byte(m))...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := open(t)
		s := w.all(t, 1000, "")
		path := w.servePublisher(t, ci(), bus.Limits{Handshake: time.Second})
		c := dial(t, path)
		_, _ = c.Write(data) // the host may have cut it
		_ = c.Close()        // its end is what is looked at
		good := join(t, path, "PUB", 1)
		good.send(zmtp.AppendMessage(nil, []byte("ci.last-of-all"), []byte("{}")))
		for _, e := range after(t, s, "ci.last-of-all") {
			if e.Source != "ci" || e.Group != "main" || !events.HasPrefix(e.Topic, "ci.") {
				t.Fatalf("have %+v", e)
			}
		}
	})
}
