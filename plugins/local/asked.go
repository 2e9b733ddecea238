package main

import (
	"crypto/rand"
	"strings"
	"sync"
)

// maxAsked is how many messages wait for what becomes of them, beyond which the
// oldest is not known any more.
const maxAsked = 1000

// asked are the messages that were taken, by the names that this channel gave them,
// until what became of them is known. It is safe for concurrent use.
type asked struct {
	mu    sync.Mutex
	open  map[string]*question
	order []string
}

// question is one of them.
type question struct {
	sender string
	// taken is closed when its sender was told that it was taken.
	taken    chan struct{}
	answered bool
}

// add gives a message its name.
func (a *asked) add(sender string) (ref string, q *question) {
	ref, q = strings.ToLower(rand.Text()[:12]), &question{sender: sender, taken: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[string]*question{}
	}
	a.open[ref] = q
	if a.order = append(a.order, ref); len(a.order) > maxAsked {
		delete(a.open, a.order[0])
		a.order = a.order[1:]
	}
	return ref, q
}

// answer is the message of that name, which has an answer from now on; nil for none.
func (a *asked) answer(ref, recipient string) *question {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[ref]
	if q != nil && q.sender == recipient {
		q.answered = true
	}
	return q
}

// end forgets a message, and gives it where it was known.
func (a *asked) end(ref string) (q question, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, known := a.open[ref]
	if !known {
		return question{}, false
	}
	delete(a.open, ref)
	for i, other := range a.order {
		if other == ref {
			a.order = append(a.order[:i], a.order[i+1:]...)
			break
		}
	}
	return *found, true
}
