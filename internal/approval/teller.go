package approval

import (
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// maxUntold is how many things wait to be told. A question that is not told of any more is
// answered with nacre approvals all the same.
const maxUntold = 1024

// Teller tells a face what happens, one thing after the other, by a goroutine of its own. A
// terminal that nobody reads holds up what it is told, and nothing else (U-10). Its zero value is
// ready, and its methods may be called concurrently.
type Teller struct {
	mu     sync.Mutex
	untold []func()
	idle   chan struct{} // closed once all was told; nil where nothing is being told
}

// Tell has something told as soon as all before it was. It is false where too much waits.
func (t *Teller) Tell(tell func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.untold) >= maxUntold {
		return false
	}
	t.add(tell)
	return true
}

// Follow has the end of something told that Tell took. There is one for each at most.
func (t *Teller) Follow(tell func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(tell)
}

// add is called with mu held.
func (t *Teller) add(tell func()) {
	t.untold = append(t.untold, tell)
	if t.idle == nil {
		t.idle = make(chan struct{})
		go t.work()
	}
}

func (t *Teller) work() {
	for {
		t.mu.Lock()
		if len(t.untold) == 0 {
			close(t.idle)
			t.idle = nil
			t.mu.Unlock()
			return
		}
		tell := t.untold[0]
		t.untold = t.untold[1:]
		t.mu.Unlock()
		tell()
	}
}

// Told returns once all was told, or after so long.
func (t *Teller) Told(patience time.Duration) {
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
	if idle != nil {
		Within(patience, idle)
	}
}

// Within waits for an end for so long at most.
func Within(patience time.Duration, ended <-chan struct{}) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}

// Queue are the questions that a terminal was not asked yet. More than can wait in a session
// are not kept, the oldest go first: those have ended. Its methods may be called concurrently.
type Queue struct {
	mu   sync.Mutex
	list []nacre.Question
	more chan struct{}
}

// NewQueue is one without questions.
func NewQueue() *Queue { return &Queue{more: make(chan struct{}, 1)} }

// Put adds a question. It never waits.
func (q *Queue) Put(one nacre.Question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == MaxPending {
		q.list = slices.Delete(q.list, 0, 1)
	}
	q.list = append(q.list, one)
	select {
	case q.more <- struct{}{}:
	default: // it is known already that there are some
	}
}

// Drop takes a question out that waits no longer.
func (q *Queue) Drop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(one nacre.Question) bool { return one.ID == id })
}

// next takes the oldest question out.
func (q *Queue) next() (one nacre.Question, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return one, false
	}
	one, q.list = q.list[0], q.list[1:]
	return one, true
}
