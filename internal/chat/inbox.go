package chat

import (
	"context"
	"maps"
	"sync"
)

// Limits of what waits for the host.
const (
	maxWaiting = 256 // messages, and presses, that the host has not decided on yet
	maxHeard   = 20  // conversations and threads that are asked for, the newest
	heardMark  = "heard/"
)

// Inbox is what came from a service and waits for the host. It outlives connections.
type Inbox struct {
	world    World
	messages chan waiting
	urgent   chan func(context.Context)
}

// waiting is a message that the host has not decided on.
type waiting struct {
	take  func(context.Context) error
	taken func()
}

// NewInbox makes an empty one.
func NewInbox(w World) *Inbox {
	return &Inbox{w, make(chan waiting, maxWaiting), make(chan func(context.Context), maxWaiting)}
}

// Run brings what came to the host until ctx ends: messages in the order in which they came,
// each until it is taken. Presses and commands, in their own order, do not wait for that: a
// person may have to decide on the very agent that has to end before.
func (i *Inbox) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { i.hurry(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-i.messages:
			for failures := 0; m.take(ctx) != nil; failures++ {
				if i.world.Wait(ctx, Backoff(failures)) != nil {
					return
				}
			}
			m.taken()
		}
	}
}

func (i *Inbox) hurry(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-i.urgent:
			do(ctx)
		}
	}
}

// Offer puts a message where it waits. take is tried until it has no error, then taken is
// called. Where too many wait, so does Offer, and its error is that of ctx.
func (i *Inbox) Offer(ctx context.Context, take func(context.Context) error, taken func()) error {
	select {
	case i.messages <- waiting{take, taken}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Soon does what a person waits for. It is false where too many wait: then it is not done.
func (i *Inbox) Soon(do func(context.Context)) bool {
	select {
	case i.urgent <- do:
		return true
	default:
		Note("a press or a command was passed over: too many wait")
		return false
	}
}

// Marks are how far conversations were heard, so that what is written while nobody listens can
// be asked for. Keys and values are the service's own. It is safe for concurrent use.
type Marks struct {
	Kept *Kept

	mu sync.Mutex
	// behind are those of which what was written meanwhile was not asked for yet. They stay where
	// they are, whatever comes meanwhile.
	behind map[string]string
}

// Remember replaces the mark of a conversation by what next makes of it; an empty one, or the
// same, leaves it.
func (m *Marks) Remember(key string, next func(known string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.Kept.Get(heardMark + key)
	if _, waits := m.behind[key]; waits {
		return
	}
	if value := next(known); value != "" && value != known {
		m.Kept.Remember(heardMark+key, value)
	}
}

// Get is the mark of a conversation; empty where it was never heard.
func (m *Marks) Get(key string) string { return m.Kept.Get(heardMark + key) }

// Behind are the newest marks as they are before a connection is made.
func (m *Marks) Behind() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.behind == nil {
		m.behind = map[string]string{}
	}
	for key, value := range m.Kept.Newest(heardMark, maxHeard) {
		m.behind[key[len(heardMark):]] = value // which is not later than where it was behind before
	}
	return maps.Clone(m.behind)
}

// Left are the marks of what was not asked for yet.
func (m *Marks) Left() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.behind)
}

// Asked says that what was written to a conversation meanwhile has come.
func (m *Marks) Asked(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.behind, key)
}
