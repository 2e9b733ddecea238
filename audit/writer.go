package audit

import (
	"fmt"
	"runtime"
	"time"
)

// batch is what the writer takes at once.
type batch struct {
	lines []byte
	end   place  // after the batch
	group *group // nil where nobody waits for a sync
	last  bool
	// closed, where it is set, is when the chain ended with the batch: its head says so.
	closed *time.Time
}

// write is the one goroutine that touches the chain's files. Whatever waits
// while a sync runs shares the next one: that is the group commit. Appended
// records are written at once, so that they outlive this process, and synced
// with the next commit or after appendDelay.
func (c *Chain) write() {
	defer close(c.stopped)
	delay := time.NewTimer(0)
	defer delay.Stop()
	<-delay.C
	waiting, last := false, 0 // unsynced records wait for delay; how many shared the last sync
	for {
		due := false
		select {
		case <-c.wake:
		case <-delay.C:
			due, waiting = true, false
		}
		c.gather(last)
		b := c.take(due)
		if err := c.flush(b, due); err != nil {
			c.fail(err, b.group)
			return
		}
		if b.group != nil {
			last = max(b.group.size, last/2)
			delay.Stop()
			waiting = false
		} else if !waiting && !due && len(b.lines) > 0 {
			delay.Reset(appendDelay)
			waiting = true
		}
		if b.last {
			return
		}
	}
}

// gather lets those who shared the last sync come back before the next one
// starts, so that they share it again instead of every other one.
func (q *queue) gather(last int) {
	for range min(last, 64) {
		q.mu.Lock()
		enough := q.group.size >= last || q.ended
		q.mu.Unlock()
		if enough {
			return
		}
		runtime.Gosched()
	}
}

func (q *queue) take(due bool) batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := batch{lines: q.buf, end: place{seq: q.seal.next, prev: q.seal.prev}, last: q.ended, closed: q.closed}
	if q.urgent || due || q.ended {
		b.group, q.group, q.urgent = q.group, newGroup(), false
	}
	q.buf, q.spare = q.spare[:0], q.buf
	close(q.drained)
	q.drained = make(chan struct{})
	return b
}

// flush writes the batch and, where somebody waits for it, syncs it.
func (c *Chain) flush(b batch, due bool) error {
	before := c.tail.segmentNumber()
	if len(b.lines) > 0 {
		if err := c.tail.put(b.lines, c.o.SegmentBytes); err != nil {
			return err
		}
	}
	if err := c.settle(b, due, c.tail.segmentNumber() != before); err != nil {
		return err
	}
	if b.group != nil {
		b.group.head = b.end
		close(b.group.done)
	}
	return nil
}

// settle makes a batch durable, where that is due. A head per segment bounds what a
// crash leaves unsigned.
func (c *Chain) settle(b batch, due, turned bool) error {
	switch {
	case b.closed != nil:
		return c.tail.syncSigned(b.end, HeadClosed, *b.closed)
	case turned:
		return c.tail.syncSigned(b.end, HeadOpen, c.o.Now())
	case b.group == nil && !due:
		return nil
	}
	return c.tail.syncBoth(b.end, c.o.Now())
}

// fail ends the chain: those who wait and those who come get the error.
func (c *Chain) fail(err error, taken *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("audit chain %s can no longer be written: %w", c.o.Chain, err)
	for _, g := range []*group{taken, c.group} {
		if g != nil {
			g.err = c.err
			close(g.done)
		}
	}
	close(c.drained)
	c.buf, c.spare = nil, nil
}
