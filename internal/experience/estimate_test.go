package experience_test

import (
	"math"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/experience"
	"github.com/nacre-dev/nacre/internal/ledger"
)

func effort(words string, cost int64, tries int, failed bool) ledger.Effort {
	task := atom.Task{Parameters: atom.Parameters{Role: "edit-local", AgentID: "a1", Whitelist: []string{"**"}}, Body: words}
	return ledger.Effort{Task: string(task.Canonical()), Cost: cost, Tries: tries, Failed: failed}
}

// M-54: what tasks like one cost, how often they were tried again and failed, and the budget of
// the next: 30 % more.
func TestEstimatesOfTasks(t *testing.T) {
	t.Parallel()
	date := func(cost int64) ledger.Effort { return effort("fix the date parser", cost, 1, false) }
	for name, c := range map[string]struct {
		past   []ledger.Effort
		want   experience.Estimate
		budget int64
	}{
		"none is known":      {nil, experience.Estimate{}, 0},
		"others are unalike": {[]ledger.Effort{effort("upgrade the database", 5, 1, true)}, experience.Estimate{}, 0},
		"too few for a budget": {[]ledger.Effort{date(400_000), date(600_000)},
			experience.Estimate{Tasks: 2, Mean: 500_000}, 0},
		"three": {[]ledger.Effort{date(400_000), effort("fixing date parsers", 600_000, 3, true), date(800_000)},
			experience.Estimate{Tasks: 3, Mean: 600_000, Failed: 1, Retries: 2.0 / 3}, 780_000},
		"free ones bound nothing":    {[]ledger.Effort{date(0), date(0), date(0)}, experience.Estimate{Tasks: 3}, 0},
		"a call can be made at all":  {[]ledger.Effort{date(10), date(10), date(10)}, experience.Estimate{Tasks: 3, Mean: 10}, 100_000},
		"a forgotten one counts not": {[]ledger.Effort{{Cost: 9, Tries: 1}}, experience.Estimate{}, 0},
		"a cost that cannot be":      {[]ledger.Effort{date(math.MaxInt64)}, experience.Estimate{}, 0},
		"words that are no task's":   {[]ledger.Effort{{Task: "fix the date parser", Cost: 7, Tries: 1}}, experience.Estimate{Tasks: 1, Mean: 7}, 0},
		"words without end":          {[]ledger.Effort{{Task: strings.Repeat("x ", 1<<20), Cost: 7, Tries: 1}}, experience.Estimate{}, 0},
	} {
		have := experience.Estimated("fix the date parser", c.past)
		if math.Abs(have.Retries-c.want.Retries) > 1e-9 {
			t.Errorf("%s: %v retries, want %v", name, have.Retries, c.want.Retries)
		}
		have.Retries, c.want.Retries = 0, 0
		if have != c.want || have.Budget() != c.budget {
			t.Errorf("%s: have %+v and a budget of %d, want %+v and %d", name, have, have.Budget(), c.want, c.budget)
		}
	}
}

// M-54: with each task that ends, the estimate comes nearer to what such tasks cost; what was
// dear once is forgotten after twenty.
func TestAnEstimateConverges(t *testing.T) {
	t.Parallel()
	past := []ledger.Effort{effort("fix the date parser", 9_000_000, 1, false)}
	off := int64(math.MaxInt64)
	for range 20 {
		past = append([]ledger.Effort{effort("fix the date parser", 1_000_000, 1, false)}, past...)
		e := experience.Estimated("fix the date parser", past)
		if now := e.Mean - 1_000_000; now >= off {
			t.Fatalf("after %d tasks it is off by %d, and by %d before", e.Tasks, now, off)
		} else {
			off = now
		}
	}
	if off != 0 {
		t.Errorf("after twenty tasks it is off by %d", off)
	}
}
