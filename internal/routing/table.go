package routing

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre"
)

// MaxRoutes is how many routes a table has.
const MaxRoutes = 4096

// Policy says which conversation a message goes on with (D-36).
type Policy uint8

// The policies. The zero value shares nothing.
const (
	// Fresh begins anew with every message.
	Fresh Policy = iota
	// Resume goes on with the last conversation of the chat, or of the sender
	// where there is no chat.
	Resume
	// Explicit goes on with the conversation that the message names, and begins
	// anew where it names none.
	Explicit
)

var policyNames = [...]string{"fresh", "resume", "explicit"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return policyNames[Fresh]
}

// ParsePolicy reads fresh, resume or explicit; empty means fresh.
func ParsePolicy(s string) (Policy, error) {
	if s == "" {
		return Fresh, nil
	}
	for i, name := range policyNames {
		if s == name {
			return Policy(i), nil
		}
	}
	return Fresh, fmt.Errorf("session %.40q: use fresh, resume or explicit", s)
}

// Route is the operator's word on whose messages belong to which group.
type Route struct {
	Channel string
	// Sender or Chat narrow the route; with neither it is for the whole channel.
	// Both at once are refused.
	Sender string
	Chat   string
	Group  nacre.Group
	Policy Policy
	// Operator says that the words are an operator's and do not taint (M-52).
	Operator bool
}

// String names the route in an error.
func (r Route) String() string {
	switch {
	case r.Sender != "":
		return fmt.Sprintf("route %s, sender %.80q, to group %s", r.Channel, r.Sender, r.Group)
	case r.Chat != "":
		return fmt.Sprintf("route %s, chat %.80q, to group %s", r.Channel, r.Chat, r.Group)
	}
	return fmt.Sprintf("route %s, every sender, to group %s", r.Channel, r.Group)
}

func (r Route) check() error {
	switch {
	case !isChannel(r.Channel):
		return fmt.Errorf("channel %.80q: use 1–%d lower-case letters, digits, _ or -", r.Channel, MaxChannel)
	case r.Sender != "" && r.Chat != "":
		return fmt.Errorf("%s: name a sender or a chat, not both", r)
	case r.Sender != "" && !isName(r.Sender):
		return fmt.Errorf("%s: a sender is 1–%d characters, no control characters", r, MaxSender)
	case r.Chat != "" && !isName(r.Chat):
		return fmt.Errorf("%s: a chat is 1–%d characters, no control characters", r, MaxSender)
	case int(r.Policy) >= len(policyNames):
		return fmt.Errorf("%s: unknown session policy %d", r, r.Policy)
	}
	if _, err := nacre.ParseGroup(string(r.Group)); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// place is what a route is for; the kind keeps a sender from being taken for a
// chat of the same name.
type place struct {
	channel string
	kind    kind
	name    string
}

type kind uint8

const (
	everyone kind = iota
	bySender
	byChat
)

func (r Route) place() place {
	switch {
	case r.Sender != "":
		return place{r.Channel, bySender, r.Sender}
	case r.Chat != "":
		return place{r.Channel, byChat, r.Chat}
	}
	return place{r.Channel, everyone, ""}
}

// Table maps each (channel, sender) and (channel, chat) to at most one group.
// It never changes, and may be used concurrently. The zero value matches nothing.
type Table struct{ routes map[place]Route }

// Compile checks the routes. A second route for the same place is an error that
// names both, even where they say the same.
func Compile(routes []Route) (*Table, error) {
	if len(routes) > MaxRoutes {
		return nil, fmt.Errorf("%d routes, at most %d", len(routes), MaxRoutes)
	}
	t := &Table{routes: make(map[place]Route, len(routes))}
	for _, r := range routes {
		if err := r.check(); err != nil {
			return nil, err
		}
		if first, twice := t.routes[r.place()]; twice {
			return nil, fmt.Errorf("%s and %s are for the same messages: keep one", first, r)
		}
		t.routes[r.place()] = r
	}
	return t, nil
}

// Reason is why a message or an event was not acted on; stable, for records.
type Reason string

// The reasons.
const (
	// ReasonMalformed: the payload is not what its topic promises.
	ReasonMalformed Reason = "malformed"
	// ReasonUnmatched: no route is for the message.
	ReasonUnmatched Reason = "unmatched"
	// ReasonAmbiguous: the routes of its sender and of its chat name different groups.
	ReasonAmbiguous Reason = "ambiguous"
	// ReasonGroup: the event's group is not the one that its route names.
	ReasonGroup Reason = "other_group"
	// ReasonSource: the event came from somewhere that may not send it.
	ReasonSource Reason = "source"
	// ReasonTopic: events of the topic start no agent.
	ReasonTopic Reason = "topic"
)

// Match is where a message goes.
type Match struct {
	Group  nacre.Group
	Policy Policy
	// Key names the conversation: equal keys of one group go on with each other.
	// It is empty where the message begins one anew, and at most 512 characters,
	// sender's words among them: hash it for a file's name.
	Key string
	// Operator says that the words are an operator's (M-52).
	Operator bool
}

// Route finds a message's one group. The route of its chat wins over that of its sender, and both
// over the channel's. Where chat and sender have routes to different groups the message is refused.
// Where both name one group, the chat decides the policy, and the words are an operator's only if
// both say so. An empty reason means that there is a match.
func (t *Table) Route(m Inbound) (Match, Reason) {
	sender, knownSender := t.routes[place{m.Channel, bySender, m.Sender}]
	chat, knownChat := t.routes[place{m.Channel, byChat, m.Chat}]
	whole, knownWhole := t.routes[place{m.Channel, everyone, ""}]
	var r Route
	switch {
	case knownChat && knownSender && chat.Group != sender.Group:
		return Match{}, ReasonAmbiguous
	case knownChat && knownSender:
		r = chat
		r.Operator = chat.Operator && sender.Operator
	case knownChat:
		r = chat
	case knownSender:
		r = sender
	case knownWhole:
		r = whole
	default:
		return Match{}, ReasonUnmatched
	}
	return Match{Group: r.Group, Policy: r.Policy, Key: key(r.Policy, m), Operator: r.Operator}, ""
}

// key is unambiguous: neither a channel nor a session holds a slash, so that
// whatever a sender is called, the words before it stay what they are.
func key(p Policy, m Inbound) string {
	switch {
	case p == Resume:
		return m.Channel + "/" + m.who()
	case p == Explicit && m.Session != "":
		return m.Channel + "/session/" + m.Session + "/" + m.who()
	}
	return ""
}

func (m Inbound) who() string {
	if m.Chat != "" {
		return "chat/" + m.Chat
	}
	return "sender/" + m.Sender
}

// Groups are those that a channel's routes name, sorted.
func (t *Table) Groups(channel string) []nacre.Group {
	groups := map[nacre.Group]bool{}
	for p, r := range t.routes {
		if p.channel == channel {
			groups[r.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(groups))
}
