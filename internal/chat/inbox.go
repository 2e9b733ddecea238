package chat

import (
	"context"
	"maps"
	"sync"
)

// Limits of what waits for the host.
const (
	maxWaiting = 16_384   // messages that the host has not decided on yet
	maxHeld    = 16 << 20 // bytes of their texts
	maxUrgent  = 16_384   // presses and commands of all users of one kind, known or not
	maxOfOne   = 16       // of them, of one user
	maxHeard   = 20       // conversations and threads that are asked for, the newest
	heardMark  = "heard/"
)

// Inbox is what came from a service and waits for the host. It outlives connections.
type Inbox struct {
	world    World
	messages *queue
	knows    func(user string) bool
	// known and others are what users wait for who are known to the host, and all others.
	known, others *turns
}

// waiting is a message that the host has not decided on, of so many bytes.
type waiting struct {
	bytes int
	take  func(context.Context) error
	taken func()
}

// queue is what waits, in the order in which it came. It is safe for concurrent use.
type queue struct {
	come, room chan struct{}

	mu    sync.Mutex
	list  []waiting
	bytes int
}

func newQueue() *queue { return &queue{come: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

// add is false where too much waits.
func (q *queue) add(m waiting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) > 0 && (len(q.list) >= maxWaiting || q.bytes+m.bytes > maxHeld) {
		return false
	}
	q.list, q.bytes = append(q.list, m), q.bytes+m.bytes
	tell(q.come)
	return true
}

// next takes out the first; false where nothing waits.
func (q *queue) next() (m waiting, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return waiting{}, false
	}
	m, q.list[0] = q.list[0], waiting{}
	q.list, q.bytes = q.list[1:], q.bytes-m.bytes
	tell(q.room)
	return m, true
}

// tell wakes whoever waits for something, unless they know of it already.
func tell(of chan struct{}) {
	select {
	case of <- struct{}{}:
	default:
	}
}

// NewInbox makes an empty one. knows tells which users are known to the host, such as
// [Users.Has].
func NewInbox(w World, knows func(user string) bool) *Inbox {
	return &Inbox{w, newQueue(), knows, newTurns(), newTurns()}
}

// Run brings what came to the host until ctx ends: messages in the order in which they came,
// each until it is taken. Presses and commands do not wait for that: a person may have to decide
// on the very agent that has to end before. Nor do they wait for those of strangers.
func (i *Inbox) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { i.known.run(ctx) })
	work.Go(func() { i.others.run(ctx) })
	for ctx.Err() == nil {
		m, waits := i.messages.next()
		if !waits {
			select {
			case <-ctx.Done():
			case <-i.messages.come:
			}
			continue
		}
		for failures := 0; m.take(ctx) != nil; failures++ {
			if i.world.Wait(ctx, Backoff(failures)) != nil {
				return
			}
		}
		m.taken()
	}
}

// Offer puts a message of so many bytes where it waits. take is tried until it has no error, then
// taken is called. Up to 16,384 messages or 16 MB wait, and whoever reads from the service is not
// kept from what comes behind them, such as a person's press. Beyond that Offer waits, and its
// error is that of ctx.
func (i *Inbox) Offer(ctx context.Context, bytes int, take func(context.Context) error, taken func()) error {
	for !i.messages.add(waiting{bytes, take, taken}) {
		select {
		case <-i.messages.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Soon does what a user waits for, each user's in the order in which it came. It is false where
// too much of that user waits, or of strangers: then it is not done. However many strangers there
// are, nothing of a user whom the host knows is passed over for them, or waits for them.
func (i *Inbox) Soon(user string, do func(context.Context)) bool {
	turns := i.others
	if i.knows(user) {
		turns = i.known
	}
	waits, first := turns.add(user, do)
	if first {
		Note("a press or a command was passed over: too many wait")
	}
	return waits
}

// turns are what users wait for. One of each user comes after the other, so that nobody waits
// for all that another one has pressed. It is safe for concurrent use.
type turns struct {
	come chan struct{}

	mu      sync.Mutex
	order   []string // the users who wait
	waiting map[string][]func(context.Context)
	all     int
	full    bool // something was passed over since nothing waited
}

func newTurns() *turns {
	return &turns{come: make(chan struct{}, 1), waiting: map[string][]func(context.Context){}}
}

// add is false where too much waits; first tells of the first that is passed over.
func (t *turns) add(user string, do func(context.Context)) (waits, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.waiting[user]
	if len(own) >= maxOfOne || t.all >= maxUrgent {
		first, t.full = !t.full, true
		return false, first
	}
	if len(own) == 0 {
		t.order = append(t.order, user)
	}
	t.waiting[user], t.all = append(own, do), t.all+1
	tell(t.come)
	return true, false
}

// next takes out what has its turn; nil where nothing waits.
func (t *turns) next() (do func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.full = false
		return nil
	}
	user := t.order[0]
	t.order = t.order[1:]
	own := t.waiting[user]
	do, t.all = own[0], t.all-1
	if len(own) == 1 {
		delete(t.waiting, user)
		return do
	}
	t.waiting[user], t.order = own[1:], append(t.order, user)
	return do
}

func (t *turns) run(ctx context.Context) {
	for ctx.Err() == nil {
		if do := t.next(); do != nil {
			do(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-t.come:
		}
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
