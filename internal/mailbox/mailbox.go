// Package mailbox holds the messages of a process that serves. Each is routed and written down before its
// channel is told that it was taken, and waits for its turn. Whoever comes after a process that was killed
// carries it on, and it is forgotten when it was dealt with.
package mailbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/telling"
	"github.com/nacre-dev/nacre/plugin"
)

var (
	errNode = errors.New("[store] url_env and --node go together: nodes that share a store each have a name")
	errOver = errors.New("other nodes declared this node over and carry on its messages: it did not reach the [store] in time; start nacre serve again")
)

// Mailbox keeps the messages that were taken until they were dealt with, and knows whose turn
// it is.
type Mailbox struct {
	// Table says which message is whose.
	Table *routing.Table
	// Box keeps them; nil until it is open.
	Box *inbox.Box

	node  string
	tell  *telling.Teller
	turns *inbox.Turns
	drops dispatch.Tally
}

// New reads what a mailbox stands on, and opens nothing. node names the process among those
// that share a [store]; it is empty without one.
func New(inst *installation.Installation, node string) (*Mailbox, error) {
	table, err := inst.Config.RoutingTable()
	if err == nil && (node == "") != (inst.Config.Store.URLEnv == "") {
		err = errNode
	}
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return &Mailbox{Table: table, node: node}, nil
}

// Open opens the folder of this machine's messages, or the store of its nodes. sessions are how
// many agents of a group run at once, and waiting how many of its messages wait.
func (b *Mailbox) Open(ctx context.Context, tell *telling.Teller, sessions, waiting int) (err error) {
	b.tell = tell
	if limit := sessions + waiting; b.node == "" {
		b.Box, err = inbox.Open(tell.Inst.Registry.Paths().Messages(), string(tell.ID()), limit)
	} else {
		b.Box, err = inbox.Join(ctx, tell.Inst.Registry.Store(), b.node, limit)
	}
	if err != nil {
		return err
	}
	b.turns = b.Box.Turns(sessions)
	return nil
}

// Close gives the messages up to whoever serves next. One that was not opened has none.
func (b *Mailbox) Close() error {
	if b.Box == nil {
		return nil
	}
	return b.Box.Close()
}

// Await waits until ctx ends, or until other nodes declared this one over, which is an error.
func (b *Mailbox) Await(ctx context.Context) error {
	select {
	case <-b.Box.Over():
		return errOver
	case <-ctx.Done():
		return nil
	}
}

// Cause is why serving ends, in words that say what to do then: a node that is over learns it from
// whatever it writes first.
func Cause(err error) error {
	if inbox.IsOver(err) {
		return errOver
	}
	return err
}

// Rings tells that another node may have left something, until end is called.
func (b *Mailbox) Rings() (rings <-chan struct{}, end func()) {
	return b.tell.Inst.Registry.Store().Listen(inbox.Topic)
}

// Hear takes what a plugin says.
func (b *Mailbox) Hear(ctx context.Context, from pluginhost.Scope, topic string, payload json.RawMessage) error {
	if topic == bus.TopicInbound {
		return b.inbound(ctx, from.Plugin, payload)
	}
	_, err := b.tell.Bus.Publish(ctx, bus.Event{Topic: topic, Source: string(from.Plugin), Group: from.Group, Payload: payload})
	return err
}

// inbound takes a message from a channel: it is routed before it is an event, so
// that whoever subscribes to a group's events gets it and nobody else (D-33).
func (b *Mailbox) inbound(ctx context.Context, channel nacre.PluginName, payload json.RawMessage) error {
	decision := routing.Decide(plugin.Envelope{Topic: bus.TopicInbound, Source: string(channel), Payload: payload}, b.Table)
	if decision.Action != routing.Start {
		b.Dropped(ctx, dispatch.Order{Envelope: plugin.Envelope{Topic: bus.TopicInbound, Source: string(channel)}, Decision: decision}, string(decision.Reason))
		return plugin.ErrDropped
	}
	e := bus.Event{ID: installation.RandomHex(), Topic: bus.TopicInbound, Source: string(channel), Group: decision.Group, Payload: payload}
	once := decision.Message.Ref != ""
	if once {
		e.ID = inbox.Name(e.Source, decision.Message.Channel, decision.Message.Ref)
	}
	err := b.keep(ctx, plugin.Envelope{ID: e.ID, Topic: e.Topic, Source: e.Source, Group: e.Group, Payload: e.Payload}, decision.Key, once)
	switch {
	case errors.Is(err, inbox.ErrRepeated):
		return nil // the channel did not hear that it was taken, and brought it again (M-48)
	case errors.Is(err, inbox.ErrFull):
		return pluginhost.Refuse(err.Error() + ": try again later")
	case err != nil:
		return err
	}
	if _, err = b.tell.Bus.Publish(ctx, e); err != nil {
		err = errors.Join(err, b.Box.Discard(e.ID)) // the channel is told that it was not taken
	}
	return err
}

// keep writes a message of a conversation down before its channel is told that it was taken. once says that
// its id is its channel's own name for it. One too many for its group is refused, and recorded.
func (b *Mailbox) keep(ctx context.Context, e plugin.Envelope, conversation string, once bool) error {
	err := b.Box.Keep(inbox.Message{
		ID: e.ID, Session: registry.NewID(), Source: e.Source, Group: e.Group, Taken: b.tell.Inst.Options.Now().UTC(), Conversation: conversation, Once: once, Payload: e.Payload,
	})
	if err != nil && !errors.Is(err, inbox.ErrRepeated) {
		o := dispatch.Order{Envelope: e}
		o.Group = e.Group
		b.Dropped(ctx, o, b.tell.Clean(err.Error()))
	}
	return err
}

// Feed hands the dispatcher what it is to decide on, until there is no more. That is timers' events from
// the bus, and messages from the inbox, those first that a process which is gone left there. again is
// called where an order that waits may have its turn.
func (b *Mailbox) Feed(work context.Context, events <-chan plugin.Envelope, to chan<- plugin.Envelope, again func()) {
	poll := time.NewTicker(b.Box.Every())
	defer poll.Stop()
	rings, end := b.Rings()
	defer end()
	turns, endTurns := b.tell.Inst.Registry.Store().Listen(inbox.TurnTopic)
	defer endTurns()
	var left leftovers
	left.carryOn(work, b)
	for {
		b.offer(work, to)
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			_, outside := b.tell.Inst.Config.Events.Publishers[e.Source] // whom nobody answers; no plugin has its name
			switch {
			case e.Topic != bus.TopicInbound:
				hand(work, to, e)
			case outside: // a channel's was kept before it was told
				_ = b.keep(work, e, routing.Decide(e, b.Table).Key, false) // it is recorded
			}
		case <-poll.C:
			left.carryOn(work, b)
			_ = b.turns.Settle(work) // it is asked again
			again()
		case <-turns:
			again()
		case <-rings:
			left.carryOn(work, b)
		case <-work.Done():
			return
		}
	}
}

// Turn asks whether it is an order's turn among the nodes. Where nobody knows, it waits.
func (b *Mailbox) Turn(ctx context.Context, o dispatch.Order) bool {
	given, err := b.turns.Take(ctx, inbox.Turn{ID: o.Envelope.ID, Group: o.Group, Conversation: o.Key})
	return given && err == nil
}

// Over gives an order's turn back.
func (b *Mailbox) Over(ctx context.Context, o dispatch.Order) { b.turns.End(ctx, o.Envelope.ID) }

// offer hands over the messages that wait, the oldest first.
func (b *Mailbox) offer(work context.Context, to chan<- plugin.Envelope) {
	for _, m := range b.Box.Waiting() {
		if _, ok := b.Box.Offer(m.ID); ok {
			hand(work, to, plugin.Envelope{ID: m.ID, Topic: bus.TopicInbound, Source: m.Source, Group: m.Group, Payload: m.Payload})
		}
	}
}

func hand(work context.Context, to chan<- plugin.Envelope, e plugin.Envelope) {
	select {
	case to <- e:
	case <-work.Done():
	}
}

// leftovers are what processes that are gone left, between two looks.
type leftovers struct {
	complaint string
	// lost are messages that are given up, of which nobody was told yet.
	lost []inbox.Message
}

// carryOn takes over the messages of processes that are gone. One that was
// interrupted twice is given up. What cannot be taken over is recorded, but not a
// second time in a row.
func (l *leftovers) carryOn(ctx context.Context, b *Mailbox) {
	left, err := b.Box.TakeOver(b.serves)
	now := ""
	if err != nil {
		now = b.tell.Clean(err.Error())
	}
	if now != "" && now != l.complaint {
		b.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicInbound, Outcome: nacre.OutcomeError, Reason: now})
	}
	l.complaint = now
	for _, m := range left {
		outcome := "waited, carried on"
		switch {
		case m.Lost():
			outcome = "interrupted"
		case m.Begun > 0:
			outcome = "interrupted, carried on"
		}
		b.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicInbound, Outcome: outcome, Reason: "message " + m.ID + ", session " + string(m.Session)})
		if m.Lost() {
			b.Box.Offer(m.ID) // to nobody
			l.lost = append(l.lost, m)
		}
	}
	l.lost = slices.DeleteFunc(l.lost, func(m inbox.Message) bool { return giveUp(ctx, b, m) })
}

// giveUp removes a message with which nobody begins again, and then tells of it: whoever could
// not remove it would not be the last one to tell. It reports whether there is nothing
// more to do here, as where other nodes have it.
func giveUp(ctx context.Context, b *Mailbox, m inbox.Message) bool {
	err := b.Box.Remove(m.ID)
	if err == nil {
		_ = b.tell.Publish(ctx, bus.TopicAgentError, m.Group, givenUp(m))
	}
	return err == nil || errors.Is(err, inbox.ErrUnknown)
}

// givenUp is what subscribers are told of a message that nobody begins with again. It
// names whose it was, so that its channel can tell them: no agent will.
func givenUp(m inbox.Message) map[string]any {
	payload := map[string]any{"session": m.Session, "for": m.ID, "outcome": "interrupted twice: it is not begun again"}
	if said, err := routing.ParseInbound(m.Payload); err == nil {
		payload["message"] = said.About()
	}
	return payload
}

// notBegun tells the channel of a message that was taken, and that nobody begins with
// after all.
func notBegun(ctx context.Context, b *Mailbox, e plugin.Envelope, reason string) {
	said, err := routing.ParseInbound(e.Payload)
	if err == nil {
		_ = b.tell.Publish(ctx, bus.TopicAgentError, e.Group, map[string]any{"for": e.ID, "outcome": reason, "message": said.About()})
	}
}

// serves tells whether the nacre serve of a session is there. Where nobody knows, it is.
func (b *Mailbox) serves(holder string) bool {
	id, err := nacre.ParseSessionID(holder)
	if err != nil {
		return true
	}
	s, err := b.tell.Inst.Registry.Show(id)
	if errors.Is(err, registry.ErrUnknown) {
		return false
	}
	return err != nil || s.Live()
}

// Begin counts that an agent is about to hear a message. It hears nothing where that
// cannot be written before the end: whoever serves next begins (F-73).
func (b *Mailbox) Begin(ctx context.Context, o dispatch.Order) error {
	var err error
	ok := scheduling.Persist(ctx, func() error {
		_, err = b.Box.Begin(o.Envelope.ID)
		return err
	})
	if ok {
		return nil
	}
	return err
}

// DealtWith forgets a message whose turn is over or could not be taken. One whose
// turn was cut off by the end of this process is there for the next one.
func (b *Mailbox) DealtWith(ctx context.Context, o dispatch.Order, err error) {
	if o.Message != nil && (err == nil || ctx.Err() == nil) {
		b.Forget(ctx, o.Envelope.ID)
	}
}

// waits reports whether a message that no agent is started for now stays in the
// inbox, to be offered again: there was no room, or this is the end. Others go.
func (b *Mailbox) waits(ctx context.Context, o dispatch.Order, reason string) bool {
	switch {
	case !b.Box.Has(o.Envelope.ID):
	case reason == dispatch.ReasonFull:
		return b.Box.Withdraw(o.Envelope.ID)
	case reason == dispatch.ReasonEnd:
		b.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicInbound, Outcome: "kept for the next nacre serve", Reason: "message " + o.Envelope.ID})
		return true
	default:
		b.Forget(ctx, o.Envelope.ID)
	}
	return false
}

// Forget removes a message, and does not give up before the end: one that was left
// would be carried on.
func (b *Mailbox) Forget(ctx context.Context, id string) {
	scheduling.Persist(ctx, func() error { return b.Box.Remove(id) })
}

// Dropped records an event that could have started an agent and will not, and reports whether
// it is over: a message may be offered again.
func (b *Mailbox) Dropped(ctx context.Context, o dispatch.Order, reason string) (over bool) {
	taken := b.Box.Has(o.Envelope.ID)
	if b.waits(ctx, o, reason) {
		return false
	}
	if taken {
		notBegun(ctx, b, o.Envelope, "it was dropped: "+reason)
	}
	detail, err := json.Marshal(map[string]string{"event": o.Envelope.ID, "from": o.Envelope.Source, "detail": o.Detail, "for": string(o.Group)})
	if err == nil && b.drops.Each(b.tell.Inst.Options.Now(), reason) {
		b.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: "dropped", Reason: reason, Detail: detail})
	}
	return true
}

// TellDrops records how many more were dropped than have a record each.
func (b *Mailbox) TellDrops(ctx context.Context) {
	if counts := b.drops.Take(); counts != nil {
		detail, _ := json.Marshal(map[string]any{"count": counts}) // words and numbers
		b.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicInbound, Outcome: "dropped", Reason: "too many for a record each", Detail: detail})
	}
}

// TellDropsEveryMinute does so until ctx ends.
func (b *Mailbox) TellDropsEveryMinute(ctx context.Context) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			b.TellDrops(ctx)
		}
	}
}

// Unfinished are the sessions of messages that were taken and not dealt with.
func Unfinished(ctx context.Context, inst *installation.Installation) (map[nacre.SessionID]bool, error) {
	if store := inst.Registry.Store(); store != nil {
		return inbox.SharedSessions(ctx, store)
	}
	return inbox.Sessions(inst.Registry.Paths().Messages())
}
