package inbox_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// of is a message of a conversation.
func of(conversation string, n int) inbox.Message {
	m := message(n)
	m.Conversation = conversation
	return m
}

// asker asks for turns at one of several nodes.
type asker struct {
	t     *testing.T
	box   *inbox.Box
	turns *inbox.Turns
}

func (a asker) take(want bool, m inbox.Message) {
	a.t.Helper()
	given, err := a.turns.Take(a.t.Context(), inbox.Turn{ID: m.ID, Group: m.Group, Conversation: m.Conversation})
	if err != nil || given != want {
		a.t.Errorf("%s: have %v, %v, want %v", m.ID, given, err, want)
	}
}

func (a asker) deals(m inbox.Message) {
	a.t.Helper()
	if err := a.box.Remove(m.ID); err != nil {
		a.t.Error(err)
	}
	a.turns.End(a.t.Context(), m.ID)
}

func askers(t *testing.T, limit int) (one, two asker) {
	t.Helper()
	address := testpeer.Postgres(t)
	at := func(name string) asker {
		b := joined(t, address, name)
		t.Cleanup(func() { _ = b.Close() })
		return asker{t, b, b.Turns(limit)}
	}
	return at("one"), at("two")
}

// the messages of a conversation begin in the order in which they were taken, at whichever
// node, one at a time. Other conversations do not wait for them.
func TestAConversationHasOneOrderOverNodes(t *testing.T) {
	t.Parallel()
	one, two := askers(t, 3)
	keep(t, one.box, of("ada", 1))
	keep(t, two.box, of("ada", 2), of("bob", 3))
	two.take(false, of("ada", 2))
	two.take(true, of("bob", 3))
	one.take(true, of("ada", 1))
	one.take(true, of("ada", 1)) // whoever did not hear the answer asks again
	two.take(false, of("ada", 2))
	one.deals(of("ada", 1))
	two.take(true, of("ada", 2))
	keep(t, one.box, of("ada", 4))
	one.take(false, of("ada", 4))
	two.deals(of("ada", 2))
	one.take(true, of("ada", 4))
}

// a group has so many agents at once over all nodes, and who has waited longest is next. That
// holds for a tick of a schedule, which is in no box, as for a message. Another group does not
// notice.
func TestAGroupHasOneLimitOverNodes(t *testing.T) {
	t.Parallel()
	one, two := askers(t, 2)
	keep(t, one.box, message(1), message(2))
	one.take(true, message(1))
	tick, other := inbox.Message{ID: "tick", Group: "main"}, inbox.Message{ID: "other", Group: "others"}
	two.take(true, other)
	two.take(false, tick) // the second place is the second message's
	keep(t, one.box, message(3))
	one.take(true, message(2))
	one.deals(message(1))
	one.take(false, message(3))
	two.take(true, tick)
	two.turns.End(t.Context(), tick.ID)
	one.take(true, message(3))
}

// the turns of a node that is over are over with it, and the node itself is given none.
// What it had taken comes first where it is carried on.
func TestTurnsEndWithTheirNode(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire := testpeer.NewWire(t, address)
	lost, two := joined(t, wire.Address, "lost"), joined(t, address, "two")
	t.Cleanup(func() { _, _ = lost.Close(), two.Close() })
	one, next := asker{t, lost, lost.Turns(1)}, asker{t, two, two.Turns(1)}
	keep(t, lost, of("ada", 1))
	keep(t, two, of("ada", 2), of("bob", 3))
	one.take(true, of("ada", 1))
	next.take(false, of("bob", 3))
	wire.Cut()
	if given, err := one.turns.Take(t.Context(), inbox.Turn{ID: "m1", Group: "main"}); err == nil {
		t.Errorf("have %v from a store that is away", given)
	}
	var taken []inbox.Message
	testwait.Until(t, "what the lost node had", func() bool { taken = append(taken, takeOver(t, two)...); return len(taken) == 1 })
	next.take(false, of("bob", 3))
	next.take(true, of("ada", 1))
	wire.Heal()
	<-lost.Over()
	if given, err := one.turns.Take(t.Context(), inbox.Turn{ID: "m9", Group: "other"}); err == nil {
		t.Errorf("have %v for a node that is over", given)
	}
	one.turns.End(t.Context(), "m1") // which is another's by now
	next.take(false, of("ada", 2))
	next.deals(of("ada", 1))
	next.take(true, of("ada", 2))
}

// a turn that was given back while the store was away is over as soon as it is told, and
// wakes who waits at another node.
func TestATurnIsGivenBackLater(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire := testpeer.NewWire(t, address)
	slow, two := joined(t, wire.Address, "slow"), joined(t, address, "two")
	t.Cleanup(func() { _, _ = slow.Close(), two.Close() })
	one, next := asker{t, slow, slow.Turns(1)}, asker{t, two, two.Turns(1)}
	rings, end := storeAt(t, address).Listen(inbox.TurnTopic)
	defer end()
	<-rings // it listens
	one.take(true, message(1))
	next.take(false, message(2))
	wire.Cut()
	one.turns.End(t.Context(), "m1")
	next.take(false, message(2))
	wire.Heal()
	testwait.Until(t, "the store to be told", func() bool { return one.turns.Settle(t.Context()) == nil })
	<-rings
	next.take(true, message(2))
}

// A box that no nodes share gives every turn.
func TestOneMachineAsksNobody(t *testing.T) {
	t.Parallel()
	a := asker{t: t, box: open(t, t.TempDir(), "one")}
	a.turns = a.box.Turns(1)
	a.take(true, message(1))
	a.take(true, message(2))
	a.turns.End(t.Context(), "m1")
	if err := a.turns.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

// a post is one node's at a time, as for a channel that may run once. Another gets it when
// its node gives it back, leaves or is over, and a node that is over gets none.
func TestAPostIsOneNodes(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire := testpeer.NewWire(t, address)
	lost, two, three := joined(t, wire.Address, "lost"), joined(t, address, "two"), joined(t, address, "three")
	t.Cleanup(func() { _, _, _ = lost.Close(), two.Close(), three.Close() })
	holds := func(want bool, b *inbox.Box) {
		t.Helper()
		if held, err := b.Node().Hold(t.Context(), "chat"); held != want || err != nil {
			t.Errorf("%s: have %v, %v, want %v", b.Node().Name, held, err, want)
		}
	}
	holds(true, lost)
	holds(true, lost)
	holds(false, two)
	if held, err := two.Node().Hold(t.Context(), "another"); !held || err != nil {
		t.Errorf("have %v, %v for another post", held, err)
	}
	wire.Cut()
	if held, err := lost.Node().Hold(t.Context(), "chat"); held || err == nil {
		t.Errorf("have %v, %v from a store that is away", held, err)
	}
	testwait.Until(t, "the post of a node that is lost", func() bool {
		takeOver(t, two)
		held, err := two.Node().Hold(t.Context(), "chat")
		return held && err == nil
	})
	wire.Heal()
	<-lost.Over()
	if held, err := lost.Node().Hold(t.Context(), "chat"); held || err == nil {
		t.Errorf("have %v, %v for a node that is over", held, err)
	}
	if err := lost.Node().Resign(t.Context(), "chat"); err != nil { // which is another's by now
		t.Error(err)
	}
	holds(false, three)
	if err := two.Node().Resign(t.Context(), "chat"); err != nil {
		t.Error(err)
	}
	holds(true, three)
	if err := three.Close(); err != nil {
		t.Fatal(err)
	}
	holds(true, two)
}
