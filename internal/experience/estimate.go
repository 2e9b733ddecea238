package experience

import (
	"fmt"
	"math"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/recall"
)

const (
	// similar is the least likeness of two tasks of which one estimates the other.
	similar = 0.5
	// mostPast is how many tasks an estimate is made of: the latest.
	mostPast = 20
	// leastPast is how many it takes before an estimate bounds what a task may cost.
	leastPast = 3
	// leastBudget is what the budget of an estimate is at least, in millionths of a dollar: with less no
	// call of a large model can be made at all.
	leastBudget = 100_000
	// mostCost is the highest cost of a task that counts, in millionths of a dollar.
	mostCost = 1 << 50
)

// Estimate is what tasks like one really came to. The zero value is of none.
type Estimate struct {
	// Tasks is how many there were, and Failed how many of them did not hold.
	Tasks  int `json:"tasks"`
	Failed int `json:"failed"`
	// Mean is what one cost on average, in millionths of a dollar.
	Mean int64 `json:"mean_microusd"`
	// Retries is how often an agent tried again, on average.
	Retries float64 `json:"retries"`
}

// Estimated looks at the efforts of a project, the latest first, for those of tasks that words
// are like.
func Estimated(words string, past []ledger.Effort) Estimate {
	asked := recall.Sketch(shortened(words))
	var e Estimate
	var cost, retries float64
	for _, one := range past {
		if e.Tasks == mostPast || one.Task == "" || one.Cost > mostCost || asked.Likeness(recall.Sketch(shortened(wordsOf(one.Task)))) < similar {
			continue
		}
		e.Tasks++
		cost += float64(one.Cost)
		retries += float64(one.Tries - 1)
		if one.Failed {
			e.Failed++
		}
	}
	if e.Tasks > 0 {
		e.Mean, e.Retries = int64(math.Round(cost/float64(e.Tasks))), retries/float64(e.Tasks)
	}
	return e
}

// wordsOf are the operator's words in a task as it was pinned.
func wordsOf(pinned string) string {
	if t, err := atom.ParseTask([]byte(pinned)); err == nil {
		return t.Body
	}
	return strings.TrimPrefix(pinned, "run: ") // as the row of a run without a role has it
}

// shortened is as much of a task's words as is compared.
func shortened(words string) string { return words[:min(len(words), 4096)] }

// Budget is what the next task like these may cost, in millionths of a dollar: 30 % more than
// they did. It is 0, which bounds nothing, where too few are known, or they were free.
func (e Estimate) Budget() int64 {
	if e.Tasks < leastPast || e.Mean == 0 {
		return 0
	}
	return max(e.Mean+e.Mean*3/10, leastBudget)
}

// Told says it in a line, with the budget that was made of it.
func (e Estimate) Told(budgeted int64) string {
	if budgeted == 0 {
		return e.String()
	}
	return e.String() + "; this one may cost " + dollars(budgeted)
}

// dollars is an amount in cents, or finer where it is less than one.
func dollars(micro int64) string {
	if micro != 0 && micro < 10_000 {
		return fmt.Sprintf("$%.4f", float64(micro)/1e6)
	}
	return fmt.Sprintf("$%.2f", float64(micro)/1e6)
}

// String says it in a line, without a budget.
func (e Estimate) String() string {
	tasks, cost := "1 task like this one", "cost"
	if e.Tasks != 1 {
		tasks, cost = fmt.Sprintf("%d tasks like this one", e.Tasks), "cost on average"
	}
	return fmt.Sprintf("%s %s %s, with %.1f further tries; %d failed", tasks, cost, dollars(e.Mean), e.Retries, e.Failed)
}
