// Package dispatch is the third walk, that of a message (D-33, D-36). An event comes from the bus,
// and a pure decision says whether it starts an agent and for which group. The agent is then
// started, so many at once for a group and one at a time for a conversation.
//
// Where several machines share the work, each agent's turn is asked for before it begins.
//
// It promises that whoever asked is told of every event which could have started an agent and did
// not, with the reason. An outsider who sends more than a group can take fills a queue of known
// length and no memory. It starts nothing itself: it is handed the function that does.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/plugin"
)

// The limits of a group, unless the options say otherwise.
const (
	// DefaultSessions is how many agents of a group run at once.
	DefaultSessions = 3
	// DefaultWaiting is how many events of a group wait for one of them to end.
	DefaultWaiting = 32
)

// Why an event was dropped that a route was for.
const (
	// ReasonFull is that the group has as many as wait, ReasonEnd that there is no more time.
	ReasonFull = "too many of the group's messages are waiting"
	ReasonEnd  = "shutting down"
)

// Order is what an agent is started for.
type Order struct {
	Envelope plugin.Envelope
	routing.Decision
}

// Options of a dispatcher. Table, Start and Dropped are required.
type Options struct {
	Table *routing.Table
	// Start lets an agent act and returns when its session is over. What became
	// of it, its error too, is Start's to record.
	Start func(ctx context.Context, o Order)
	// Dropped is told of each event that could have started an agent and will
	// not, and why. It may be called concurrently.
	Dropped func(ctx context.Context, o Order, reason string)
	// Turn asks whether it is an order's turn among those of all machines, and Over gives the
	// turn back. An order that has to wait is asked for again after [Dispatcher.Again]. Without
	// them this dispatcher is the only one. They may be called concurrently.
	Turn func(ctx context.Context, o Order) bool
	Over func(ctx context.Context, o Order)
	// Sessions and Waiting bound each group; zero means the default.
	Sessions, Waiting int
}

// Dispatcher starts agents for events.
type Dispatcher struct {
	Options
	mu     sync.Mutex
	groups map[nacre.Group]*group
	// came counts the orders, and rounds how often all that wait were to be asked for.
	came, rounds int
	again        chan struct{}
	work         sync.WaitGroup
}

// group is what one group has running and waiting.
type group struct {
	running int
	busy    map[string]bool // conversations that have an agent
	waiting []waiting       // in the order in which they came
	// full is the round in which the group was found to have no turn left.
	full int
}

// waiting is an order that waits. It is not asked for twice in one round.
type waiting struct {
	Order
	came, asked int
}

// New returns a dispatcher.
func New(o Options) (*Dispatcher, error) {
	if o.Table == nil || o.Start == nil || o.Dropped == nil || o.Sessions < 0 || o.Waiting < 0 || (o.Turn == nil) != (o.Over == nil) {
		return nil, errors.New("dispatch: Table, Start and Dropped are required, Turn and Over go together, and no limit is below 0")
	}
	if o.Sessions == 0 {
		o.Sessions = DefaultSessions
	}
	if o.Waiting == 0 {
		o.Waiting = DefaultWaiting
	}
	return &Dispatcher{Options: o, groups: map[nacre.Group]*group{}, again: make(chan struct{}, 1)}, nil
}

// Run takes events until there are no more or ctx ends, and returns when the agents that it started
// have ended. The end of ctx tells them to. What waits then is dropped.
func (d *Dispatcher) Run(ctx context.Context, events <-chan plugin.Envelope) {
	defer d.abandon(context.WithoutCancel(ctx))
	defer d.work.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			d.take(ctx, e)
		case <-d.again:
			d.ask(ctx)
		}
	}
}

// take decides on one event.
func (d *Dispatcher) take(ctx context.Context, e plugin.Envelope) {
	o := Order{Envelope: e, Decision: routing.Decide(e, d.Table)}
	switch o.Action {
	case routing.Start:
		if !d.enqueue(o) {
			d.Dropped(ctx, o, ReasonFull)
			return
		}
		d.next(ctx, o.Group)
	case routing.Drop:
		d.Dropped(ctx, o, string(o.Reason))
	case routing.Log:
	}
}

func (d *Dispatcher) enqueue(o Order) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groups[o.Group]
	if g == nil {
		g = &group{busy: map[string]bool{}, full: -1}
		d.groups[o.Group] = g
	}
	if len(g.waiting) >= d.Waiting {
		return false
	}
	d.came++
	g.waiting = append(g.waiting, waiting{Order: o, came: d.came, asked: -1})
	return true
}

// Again asks for the turns of all orders that wait: one of another machine's may be over.
func (d *Dispatcher) Again() {
	select {
	case d.again <- struct{}{}:
	default: // it is about to
	}
}

func (d *Dispatcher) ask(ctx context.Context) {
	d.mu.Lock()
	d.rounds++
	names := slices.Collect(maps.Keys(d.groups))
	d.mu.Unlock()
	for _, name := range names {
		d.next(ctx, name)
	}
}

// next starts what a group has room for, the oldest first, but never two of one
// conversation at once.
func (d *Dispatcher) next(ctx context.Context, name nacre.Group) {
	for ctx.Err() == nil {
		w, ok := d.pick(name)
		if !ok {
			return
		}
		d.work.Go(func() {
			if d.Turn == nil {
				d.Start(ctx, w.Order)
			} else if !d.inTurn(ctx, w.Order) {
				d.putBack(w)
				d.next(ctx, name) // others may have theirs
				return
			}
			d.done(w.Order)
			d.next(ctx, name)
		})
	}
}

// inTurn starts an order when it is its turn.
func (d *Dispatcher) inTurn(ctx context.Context, o Order) bool {
	if !d.Turn(ctx, o) {
		return false
	}
	defer d.Over(context.WithoutCancel(ctx), o)
	d.Start(ctx, o)
	return true
}

// pick takes the first that may start here and was not asked for in this round. Whoever gives
// turns knows the order of a conversation: what was carried on from another machine came
// here last, and is first.
func (d *Dispatcher) pick(name nacre.Group) (waiting, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groups[name]
	if g == nil || g.running >= d.Sessions || g.full == d.rounds {
		return waiting{}, false
	}
	for i, w := range g.waiting {
		if w.asked == d.rounds || w.Key != "" && g.busy[w.Key] {
			continue
		}
		g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
		g.running++
		g.busy[w.Key] = true
		w.asked = d.rounds
		return w, true
	}
	return waiting{}, false
}

// putBack lets an order wait again, in its place. What begins a conversation waits for nothing
// but room in its group, which then no other order has either.
func (d *Dispatcher) putBack(w waiting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groups[w.Group]
	g.running--
	delete(g.busy, w.Key)
	if w.Key == "" {
		g.full = w.asked
	}
	at, _ := slices.BinarySearchFunc(g.waiting, w.came, func(w waiting, came int) int { return cmp.Compare(w.came, came) })
	g.waiting = slices.Insert(g.waiting, at, w)
}

// done gives an agent's place back; a group with nothing left is forgotten.
func (d *Dispatcher) done(o Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groups[o.Group]
	g.running--
	d.rounds++
	delete(g.busy, o.Key)
	if g.running == 0 && len(g.waiting) == 0 {
		delete(d.groups, o.Group)
	}
}

// abandon gives up what will not be started any more.
func (d *Dispatcher) abandon(ctx context.Context) {
	d.mu.Lock()
	groups := d.groups
	d.groups = map[nacre.Group]*group{}
	d.mu.Unlock()
	for _, g := range groups {
		for _, w := range g.waiting {
			d.Dropped(ctx, w.Order, ReasonEnd)
		}
	}
}
