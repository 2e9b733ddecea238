package posture_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/posture"
)

// M-69: of 1,000 that are asked for at once, as many begin as may be at work at once, and over
// time as many as may be begun in all. Those that were refused do not count.
func TestAThousandSubAgentsAreRefusedBeyondTheBound(t *testing.T) {
	tree := posture.Tree{Children: posture.Children{Allow: true, Running: 5, Total: 12}}
	born := 0
	for born < 12 {
		var places []func(bool)
		var mu sync.Mutex
		var refused atomic.Int64
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				leave, err := tree.Enter()
				if err != nil {
					refused.Add(1)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				places = append(places, leave)
			})
		}
		all.Wait()
		if most := min(5, 12-born); len(places) != most || refused.Load() != int64(1000-most) {
			t.Fatalf("after %d, %d begin, want %d", born, len(places), most)
		}
		for n, leave := range places {
			begun := born > 0 || n > 0 // the very first could not begin, and counts for nothing
			if leave(begun); begun {
				born++
			}
		}
	}
	if _, err := tree.Enter(); err == nil || !strings.Contains(err.Error(), "has begun 12 sub-agents, and may begin no more (total under [children]") {
		t.Errorf("have %v", err)
	}
}

// M-69: what nobody allowed is refused, and bounds that cannot be are, too.
func TestBoundsFailClosed(t *testing.T) {
	if _, err := new(posture.Tree).Enter(); err == nil {
		t.Error("the zero value allows a sub-agent")
	}
	for name, b := range map[string]posture.Children{
		"a negative depth":       {Depth: -1},
		"too many generations":   {Depth: posture.MaxGenerations + 1},
		"too many at once":       {Running: posture.MaxChildrenAtWork + 1},
		"too many in all":        {Total: posture.MaxChildren + 1},
		"a memory without end":   {MemoryHours: 1 << 30},
		"a check without a word": {Checks: []string{""}},
	} {
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), "[children]") {
			t.Errorf("%s: have %v", name, err)
		}
	}
	whole := posture.Children{Allow: true, Depth: posture.MaxGenerations, Running: posture.MaxChildrenAtWork, Total: posture.MaxChildren, MemoryHours: 1, Checks: []string{"true"}}
	if err := whole.Check(); err != nil || whole.Generations() != posture.MaxGenerations || whole.Remembers() != time.Hour {
		t.Errorf("have %v, %d generations, %v", err, whole.Generations(), whole.Remembers())
	}
	if d := (posture.Children{}); d.Generations() != 1 || d.Remembers() != 24*time.Hour {
		t.Errorf("by itself %d generations, %v", d.Generations(), d.Remembers())
	}
}
