package posture

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The bounds where nothing else is said, and the most that can be.
const (
	defaultChildren   = 16
	defaultAtWork     = 3
	MaxChildren       = 256
	MaxChildrenAtWork = 32
	MaxGenerations    = 8

	defaultChildMemory = 24
	maxChildMemory     = 24 * 365
)

// Children bound the sub-agents of a run: the operator's, from [children] in config.toml. The zero value allows no
// sub-agents.
type Children struct {
	Allow bool `toml:"allow"`
	// Depth is how many generations there may be below a run; 0 means 1.
	Depth int `toml:"depth"`
	// Running is how many may be at work at once in all generations of a run, and Total how many it may begin in
	// all. 0 means 3 and 16.
	Running int `toml:"running"`
	Total   int `toml:"total"`
	// MemoryHours is how long what a sub-agent remembers is kept; 0 means 24.
	MemoryHours int `toml:"memory_hours"`
	// Checks verify what a sub-agent returns, in the place of those of its run.
	Checks []string `toml:"checks"`
}

// Check refuses bounds that cannot be.
func (b Children) Check() error {
	for _, n := range []struct {
		name      string
		have, max int
	}{{"depth", b.Depth, MaxGenerations}, {"running", b.Running, MaxChildrenAtWork}, {"total", b.Total, MaxChildren}, {"memory_hours", b.MemoryHours, maxChildMemory}} {
		if n.have < 0 || n.have > n.max {
			return fmt.Errorf("[children] %s = %d: use 1 to %d", n.name, n.have, n.max)
		}
	}
	for _, check := range b.Checks {
		if check == "" {
			return errors.New("[children] checks: one is empty: write a command")
		}
	}
	return nil
}

// Generations is how many there may be.
func (b Children) Generations() int { return cmp.Or(b.Depth, 1) }

// Remembers is how long what a sub-agent remembers is kept.
func (b Children) Remembers() time.Duration {
	return time.Duration(cmp.Or(b.MemoryHours, defaultChildMemory)) * time.Hour
}

// Tree counts the sub-agents of all generations below one run. It is safe for concurrent use.
type Tree struct {
	Children
	mu           sync.Mutex
	atWork, born int
}

// Enter takes a place for one more. leave gives it back when that has ended; where begun is
// false it never was.
func (t *Tree) Enter() (leave func(begun bool), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, running := cmp.Or(t.Total, defaultChildren), cmp.Or(t.Running, defaultAtWork)
	switch {
	case !t.Allow:
		return nil, errors.New("this installation allows no sub-agents (allow under [children] in config.toml)")
	case t.born >= total:
		return nil, fmt.Errorf("this run has begun %d sub-agents, and may begin no more (total under [children] in config.toml): do the rest yourself", total)
	case t.atWork >= running:
		return nil, fmt.Errorf("%d sub-agents of this run are at work, which is the most at once (running under [children] in config.toml): wait for one of them with wait_child", running)
	}
	t.atWork++
	t.born++
	return func(begun bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.atWork--
		if !begun {
			t.born--
		}
	}, nil
}
