package kernel

import (
	"maps"
	"sync"

	"github.com/nacre-dev/nacre"
)

// Stats are the nine counters of a kernel since it was made or reset (K-23).
type Stats struct {
	Grants             int64                      `json:"grants"`
	Denials            map[nacre.ReasonCode]int64 `json:"denials"`
	Invocations        int64                      `json:"invocations"`
	InvocationFailures int64                      `json:"invocation_failures"`
	Fallbacks          int64                      `json:"fallback_activations"`
	Redactions         int64                      `json:"redaction_events"`
	BudgetDowngrades   int64                      `json:"budget_downgrades"`
	HandleStores       int64                      `json:"handle_stores"`
	Expansions         int64                      `json:"expansions"`
}

// counters guards Stats.
type counters struct {
	mu sync.Mutex
	Stats
}

func (c *counters) count(add func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.Stats)
}

func (c *counters) denied(code nacre.ReasonCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Denials == nil {
		c.Denials = make(map[nacre.ReasonCode]int64)
	}
	c.Denials[code]++
}

// Stats is a copy of the counters. They are aggregates; QueryTraces has the
// single events.
func (k *Kernel) Stats() Stats {
	k.counters.mu.Lock()
	defer k.counters.mu.Unlock()
	s := k.counters.Stats
	s.Denials = maps.Clone(s.Denials)
	if s.Denials == nil {
		s.Denials = map[nacre.ReasonCode]int64{}
	}
	return s
}

// ResetStats sets every counter to zero.
func (k *Kernel) ResetStats() {
	k.counters.mu.Lock()
	defer k.counters.mu.Unlock()
	k.counters.Stats = Stats{}
}
