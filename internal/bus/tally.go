package bus

import (
	"math/bits"
	"sync"
)

// tally counts drops of one subscriber or publisher by reason, and reports the
// 1st, 2nd, 4th… of each.
type tally struct {
	report func(Drop)
	mu     sync.Mutex
	counts map[DropReason]uint64
}

func (t *tally) add(d Drop) {
	t.mu.Lock()
	if t.counts == nil {
		t.counts = map[DropReason]uint64{}
	}
	t.counts[d.Reason]++
	d.Count = t.counts[d.Reason]
	t.mu.Unlock()
	if bits.OnesCount64(d.Count) == 1 {
		t.report(d)
	}
}

func (t *tally) of(r DropReason) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[r]
}
