package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/operator"
)

const (
	// carriedMost is how many runs of lost machines a node carries on at once.
	carriedMost = 4
	// carriedRest is for how long a node leaves a run to others that could not go on here, and longer each time. What
	// is verified anew is as large as the run's snapshot. restMost is the longest.
	carriedRest = time.Minute
	restMost    = 16 * time.Minute
)

// Lost deals with what machines leave that are lost.
type Lost struct {
	// Carry goes on with a run, and tells in which session and what came of it.
	Carry func(ctx context.Context, lost operator.KeptRun) (session nacre.SessionID, outcome string, err error)
	// TakeBack revokes what was minted there, and gives the records of what that was.
	TakeBack func(ctx context.Context) []nacre.Record
}

// carried are the runs of lost machines that this node goes on with, or has left to others for a while.
type carried struct {
	mu      sync.Mutex
	running int
	rest    map[string]rest
}

// rest is until when a node leaves a run to others, and for how long.
type rest struct {
	until time.Time
	long  time.Duration
}

// takes tells whether this node may try to carry a run on now.
func (c *carried) takes(name string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= carriedMost || now.Before(c.rest[name].until) {
		return false
	}
	c.running++
	long := min(max(2*c.rest[name].long, carriedRest), restMost)
	c.rest[name] = rest{now.Add(long), long}
	return true
}

func (c *carried) leaves() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// carryOn begins to go on with the runs of lost machines that nobody goes on with.
func (h *server) carryOn(work context.Context, working *sync.WaitGroup) {
	lost, err := operator.LostRuns(work, h.Inst)
	if err != nil {
		return // a later look finds them
	}
	for _, run := range lost {
		if !h.carried.takes(run.Name(), h.Inst.Options.Now()) {
			continue
		}
		working.Go(func() {
			defer h.carried.leaves()
			h.carryOne(work, run)
		})
	}
}

// carryOne tells what became of a run that this node carries on.
func (h *server) carryOne(work context.Context, run operator.KeptRun) {
	session, outcome, err := h.lost.Carry(work, run)
	if errors.Is(err, operator.ErrNotLost) {
		return // another node was faster
	}
	topic := bus.TopicAgentCompleted
	if err != nil {
		topic, outcome = bus.TopicAgentError, h.Clean(err.Error())
		h.Note(work, nacre.Record{Kind: nacre.KindEvent, Topic: topic, Outcome: nacre.OutcomeError, Reason: outcome})
	}
	_ = h.Publish(work, topic, run.Group, map[string]any{"session": session, "for": run.Name(), "outcome": outcome}) // its own chain has the record
}
