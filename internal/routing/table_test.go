package routing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/plugin"
	"pgregory.net/rapid"
)

func compile(t testing.TB, routes ...routing.Route) *routing.Table {
	t.Helper()
	table, err := routing.Compile(routes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// D-33: which group, or why none.
func TestAMessageHasOneGroupOrNone(t *testing.T) {
	table := compile(t,
		routing.Route{Channel: "local", Sender: "ada", Group: "family", Policy: routing.Resume, Operator: true},
		routing.Route{Channel: "local", Chat: "kitchen", Group: "family"},
		routing.Route{Channel: "local", Chat: "work", Group: "office", Policy: routing.Explicit, Operator: true},
		routing.Route{Channel: "local", Group: "guests"},
		routing.Route{Channel: "webhook", Sender: "kitchen", Group: "home"},
		routing.Route{Channel: "chat", Sender: "jos\u00e9", Group: "one"},
		routing.Route{Channel: "chat", Sender: "jose\u0301", Group: "two"},
	)
	for name, test := range map[string]struct {
		m    routing.Inbound
		want string
	}{
		"a sender's route wins over the channel's":        {routing.Inbound{Channel: "local", Sender: "ada"}, "family resume local/sender/ada operator"},
		"the channel's route is for every other sender":   {routing.Inbound{Channel: "local", Sender: "bob"}, "guests fresh "},
		"a chat's route wins over the channel's":          {routing.Inbound{Channel: "local", Sender: "bob", Chat: "work"}, "office explicit  operator"},
		"the chat decides where both name one group":      {routing.Inbound{Channel: "local", Sender: "ada", Chat: "kitchen"}, "family fresh "},
		"chat and sender name different groups":           {routing.Inbound{Channel: "local", Sender: "ada", Chat: "work"}, "ambiguous"},
		"an unknown chat leaves it to the sender":         {routing.Inbound{Channel: "local", Sender: "ada", Chat: "garden"}, "family resume local/chat/garden operator"},
		"no route for the sender, none for the channel":   {routing.Inbound{Channel: "webhook", Sender: "ada"}, "unmatched"},
		"a chat is no sender of the same name":            {routing.Inbound{Channel: "webhook", Sender: "x", Chat: "kitchen"}, "unmatched"},
		"a sender is no chat of the same name":            {routing.Inbound{Channel: "local", Sender: "kitchen"}, "guests fresh "},
		"an unknown channel":                              {routing.Inbound{Channel: "mail", Sender: "ada"}, "unmatched"},
		"another case":                                    {routing.Inbound{Channel: "webhook", Sender: "Kitchen"}, "unmatched"},
		"white space":                                     {routing.Inbound{Channel: "webhook", Sender: "kitchen "}, "unmatched"},
		"a look-alike":                                    {routing.Inbound{Channel: "webhook", Sender: "kіtchen"}, "unmatched"},
		"a character in one form of Unicode":              {routing.Inbound{Channel: "chat", Sender: "jos\u00e9"}, "one fresh "},
		"the same in the other form is somebody else":     {routing.Inbound{Channel: "chat", Sender: "jose\u0301"}, "two fresh "},
		"a session that the sender names":                 {routing.Inbound{Channel: "local", Sender: "bob", Chat: "work", Session: "q1"}, "office explicit local/session/q1/chat/work operator"},
		"a session where the policy does not ask for one": {routing.Inbound{Channel: "local", Sender: "bob", Session: "q1"}, "guests fresh "},
	} {
		match, reason := table.Route(test.m)
		have := fmt.Sprintf("%s %s %s", match.Group, match.Policy, match.Key)
		if match.Operator {
			have += " operator"
		}
		if reason != "" {
			have = string(reason)
		}
		if have != test.want {
			t.Errorf("%s: have %q, want %q", name, have, test.want)
		}
	}
	if have := table.Groups("local"); !slices.Equal(have, []nacre.Group{"family", "guests", "office"}) {
		t.Errorf("have %v", have)
	}
}

func TestTheZeroTableMatchesNothing(t *testing.T) {
	var table routing.Table
	if m, reason := table.Route(routing.Inbound{Channel: "local", Sender: "ada"}); reason != routing.ReasonUnmatched || m != (routing.Match{}) {
		t.Errorf("have %+v, %q", m, reason)
	}
}

// D-33: what maps a sender twice is an error of the config, and names both.
func TestRoutesThatAreNotExactAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		routes []routing.Route
		want   []string
	}{
		"a sender twice":            {[]routing.Route{{Channel: "l", Sender: "a", Group: "one"}, {Channel: "l", Sender: "a", Group: "two"}}, []string{"one", "two", "keep one"}},
		"a sender twice, the same":  {[]routing.Route{{Channel: "l", Sender: "a", Group: "one"}, {Channel: "l", Sender: "a", Group: "one"}}, []string{"keep one"}},
		"a chat twice":              {[]routing.Route{{Channel: "l", Chat: "a", Group: "one"}, {Channel: "l", Chat: "a", Group: "two"}}, []string{"one", "two"}},
		"a channel twice":           {[]routing.Route{{Channel: "l", Group: "one"}, {Channel: "l", Group: "two", Operator: true}}, []string{"one", "two"}},
		"a sender and a chat":       {[]routing.Route{{Channel: "l", Sender: "a", Chat: "b", Group: "one"}}, []string{"not both"}},
		"no channel":                {[]routing.Route{{Sender: "a", Group: "one"}}, []string{"channel"}},
		"a channel in capitals":     {[]routing.Route{{Channel: "L", Group: "one"}}, []string{"channel"}},
		"no group":                  {[]routing.Route{{Channel: "l"}}, []string{"group"}},
		"a group with a space":      {[]routing.Route{{Channel: "l", Group: "a b"}}, []string{"group"}},
		"a sender with an escape":   {[]routing.Route{{Channel: "l", Sender: "a\x1b", Group: "one"}}, []string{"control"}},
		"a sender that is too long": {[]routing.Route{{Channel: "l", Sender: strings.Repeat("a", 257), Group: "one"}}, []string{"256"}},
		"a sender of broken bytes":  {[]routing.Route{{Channel: "l", Sender: "a\xff", Group: "one"}}, []string{"256"}},
		"an unknown policy":         {[]routing.Route{{Channel: "l", Group: "one", Policy: 9}}, []string{"policy"}},
		"too many":                  {make([]routing.Route, routing.MaxRoutes+1), []string{"at most"}},
	} {
		_, err := routing.Compile(test.routes)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: have %v, want it to name %q", name, err, want)
			}
		}
	}
}

func TestPolicies(t *testing.T) {
	for text, want := range map[string]routing.Policy{"": routing.Fresh, "fresh": routing.Fresh, "resume": routing.Resume, "explicit": routing.Explicit} {
		if have, err := routing.ParsePolicy(text); err != nil || have != want {
			t.Errorf("%q: have %v, %v", text, have, err)
		}
	}
	for _, text := range []string{"Fresh", "resumed", " resume"} {
		if have, err := routing.ParsePolicy(text); err == nil {
			t.Errorf("%q: have %v, want it refused", text, have)
		}
	}
}

// drawRoutes draws routes of which no two are for the same place.
func drawRoutes(t *rapid.T) []routing.Route {
	names := rapid.SampledFrom([]string{"", "a", "b", "a/b", "session/x"})
	routes := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) routing.Route {
		r := routing.Route{Channel: rapid.SampledFrom([]string{"l", "m"}).Draw(t, "channel"), Sender: names.Draw(t, "sender"),
			Group: rapid.SampledFrom([]nacre.Group{"one", "two", "three"}).Draw(t, "group"), Operator: rapid.Bool().Draw(t, "operator"),
			Policy: routing.Policy(rapid.IntRange(0, 2).Draw(t, "policy"))}
		if r.Sender == "" {
			r.Chat = names.Draw(t, "chat")
		}
		return r
	}), 0, 8, func(r routing.Route) string { return r.Channel + "\x00" + r.Sender + "\x00" + r.Chat }).Draw(t, "routes")
	return routes
}

func drawMessage(t *rapid.T) routing.Inbound {
	return routing.Inbound{
		Channel: rapid.SampledFrom([]string{"l", "m", "n"}).Draw(t, "m.channel"),
		Sender:  rapid.SampledFrom([]string{"a", "b", "c", "a/b", "session/x"}).Draw(t, "m.sender"),
		Chat:    rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "m.chat"),
		Session: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "m.session"),
	}
}

// The order of routes means nothing, a match is always a route's, and no
// message is an operator's unless a route that is for it says so.
func TestRoutingIsTheSameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := drawRoutes(t)
		m := drawMessage(t)
		shuffled := rapid.Permutation(routes).Draw(t, "shuffled")
		one, err := routing.Compile(routes)
		if err != nil {
			t.Fatal(err)
		}
		two, err := routing.Compile(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		have, reason := one.Route(m)
		again, reasonAgain := two.Route(m)
		if have != again || reason != reasonAgain {
			t.Fatalf("have %+v %q and %+v %q", have, reason, again, reasonAgain)
		}
		if reason != "" && have != (routing.Match{}) {
			t.Fatalf("have %+v with %q, want nothing beside a refusal", have, reason)
		}
		isFor := func(r routing.Route) bool {
			return r.Channel == m.Channel && (r.Sender == "" || r.Sender == m.Sender) && (r.Chat == "" || r.Chat == m.Chat)
		}
		if reason == "" && !slices.ContainsFunc(routes, func(r routing.Route) bool { return isFor(r) && r.Group == have.Group }) {
			t.Fatalf("have %+v of no route", have)
		}
		if have.Operator && !slices.ContainsFunc(routes, func(r routing.Route) bool { return isFor(r) && r.Operator && r.Group == have.Group }) {
			t.Fatalf("have an operator that no route names")
		}
	})
}

// Two messages go on with one conversation only if they are of one channel and
// of one chat, or of one sender outside of chats.
func TestKeysDoNotMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, err := routing.Compile([]routing.Route{
			{Channel: "l", Group: "g", Policy: routing.Policy(rapid.IntRange(1, 2).Draw(t, "l"))},
			{Channel: "m", Group: "g", Policy: routing.Policy(rapid.IntRange(1, 2).Draw(t, "m"))},
		})
		if err != nil {
			t.Fatal(err)
		}
		a, b := drawMessage(t), drawMessage(t)
		one, refusedOne := table.Route(a)
		two, refusedTwo := table.Route(b)
		if refusedOne != "" || refusedTwo != "" || one.Key == "" || one.Key != two.Key {
			return
		}
		sameWho := a.Chat == b.Chat && (a.Chat != "" || a.Sender == b.Sender)
		sameSession := one.Policy == routing.Resume || a.Session == b.Session
		if a.Channel != b.Channel || !sameWho || !sameSession {
			t.Fatalf("%+v and %+v have one key %q", a, b, one.Key)
		}
	})
}

const triggered = `{"task_id":"task-abc123","prompt":"Check for new emails","schedule":{"type":"cron","value":"0 6 * * *"}}`

// D-33: the seed's decision: what starts an agent, what is dropped, what is logged.
func TestDecide(t *testing.T) {
	table := compile(t, routing.Route{Channel: "telegram", Group: "family", Policy: routing.Resume})
	for name, test := range map[string]struct {
		e    plugin.Envelope
		want string
	}{
		"a message with a route":                   {plugin.Envelope{Topic: "message.inbound", Source: "telegram", Payload: []byte(seedMessage)}, "start family resume"},
		"a message whose envelope has its group":   {plugin.Envelope{Topic: "message.inbound", Group: "family", Payload: []byte(seedMessage)}, "start family resume"},
		"a message whose envelope has another":     {plugin.Envelope{Topic: "message.inbound", Group: "office", Payload: []byte(seedMessage)}, "drop other_group"},
		"a message without a route":                {plugin.Envelope{Topic: "message.inbound", Payload: []byte(message("metadata", ""))}, "drop unmatched"},
		"a message that is none":                   {plugin.Envelope{Topic: "message.inbound", Payload: []byte(`{}`)}, "drop malformed"},
		"a task that fires":                        {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(triggered)}, "start main fresh"},
		"a task with what else the scheduler says": {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(triggered[:len(triggered)-1] + `,"tick":"2026-01-01T00:00:00Z"}`)}, "start main fresh"},
		"a task that a plugin triggers":            {plugin.Envelope{Topic: "task.triggered", Source: "telegram", Group: "main", Payload: []byte(triggered)}, "drop source"},
		"a task of no group":                       {plugin.Envelope{Topic: "task.triggered", Source: "core", Payload: []byte(triggered)}, "drop other_group"},
		"a task without a prompt":                  {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{"task_id":"t","schedule":{}}`)}, "drop malformed"},
		"a task whose prompt is a list":            {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{"task_id":"t","prompt":[],"schedule":{}}`)}, "drop malformed"},
		"a task without an id":                     {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{"prompt":"p","schedule":{}}`)}, "drop malformed"},
		"a task without a schedule":                {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{"prompt":"p","task_id":"t"}`)}, "drop malformed"},
		"a task with too long a prompt":            {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{"task_id":"t","schedule":{},"prompt":"` + strings.Repeat("p", routing.MaxPrompt+1) + `"}`)}, "drop malformed"},
		"a task that is no JSON":                   {plugin.Envelope{Topic: "task.triggered", Source: "core", Group: "main", Payload: []byte(`{`)}, "drop malformed"},
		"an agent that started":                    {plugin.Envelope{Topic: "agent.started", Source: "core", Payload: []byte(`{}`)}, "log topic"},
		"a plugin's own event":                     {plugin.Envelope{Topic: "telegram.typing", Source: "telegram", Payload: []byte(seedMessage)}, "log topic"},
		"a topic that begins like one":             {plugin.Envelope{Topic: "message.inbound.x", Payload: []byte(seedMessage)}, "log topic"},
		"no topic":                                 {plugin.Envelope{Payload: []byte(seedMessage)}, "log topic"},
	} {
		d := routing.Decide(test.e, table)
		have := d.Action.String() + " " + string(d.Reason)
		if d.Action == routing.Start {
			have += fmt.Sprintf("%s %s", d.Group, d.Policy)
		}
		if have != test.want {
			t.Errorf("%s: have %q (%s), want %q", name, have, d.Detail, test.want)
		}
		if (d.Action == routing.Start) != (d.Message != nil || d.Task != nil) || d.Message != nil && d.Task != nil {
			t.Errorf("%s: have message %v and task %v", name, d.Message, d.Task)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add("message.inbound", "telegram", "", []byte(seedMessage))
	f.Add("task.triggered", "core", "main", []byte(triggered))
	f.Add("agent.started", "core", "main", []byte(`{}`))
	table := compile(f, routing.Route{Channel: "telegram", Group: "family"})
	f.Fuzz(func(t *testing.T, topic, source, group string, payload []byte) {
		d := routing.Decide(plugin.Envelope{Topic: topic, Source: source, Group: nacre.Group(group), Payload: json.RawMessage(payload)}, table)
		switch {
		case d.Action != routing.Start:
		case d.Message != nil && (topic != "message.inbound" || d.Group != "family"):
			t.Fatalf("a message of %q started %q", topic, d.Group)
		case d.Task != nil && (topic != "task.triggered" || source != "core" || string(d.Group) != group):
			t.Fatalf("a task of %q from %q started %q", topic, source, d.Group)
		}
	})
}
