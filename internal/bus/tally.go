package bus

import (
	"math/bits"
	"sync"
)

// tally counts drops of one subscriber or publisher by reason; the 1st, 2nd,
// 4th… of each is told.
type tally struct {
	report func(Drop)
	mu     sync.Mutex
	counts map[DropReason]uint64
}

// count adds a drop to its kind, and says whether it is one to tell of.
func (t *tally) count(d Drop) (Drop, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[DropReason]uint64{}
	}
	t.counts[d.Reason]++
	d.Count = t.counts[d.Reason]
	return d, bits.OnesCount64(d.Count) == 1
}

// add counts a drop and tells of it.
func (t *tally) add(d Drop) {
	if d, tell := t.count(d); tell {
		t.report(d)
	}
}

func (t *tally) of(r DropReason) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[r]
}
