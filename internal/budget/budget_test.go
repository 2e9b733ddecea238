package budget_test

import (
	"errors"
	"math"
	"testing"

	"github.com/nacre-dev/nacre/internal/budget"
	"pgregory.net/rapid"
)

// M-04: a call reserves before it is made.
func TestLedger(t *testing.T) {
	l := budget.NewLedger(1000)
	a, err := l.Reserve(600)
	if err != nil {
		t.Fatal(err)
	}
	var exhausted *budget.ExhaustedError
	if _, err := l.Reserve(401); !errors.As(err, &exhausted) || exhausted.Left != 400 || exhausted.Need != 401 {
		t.Fatalf("second reservation over the limit: have %v", err)
	}
	b, err := l.Reserve(400)
	if err != nil {
		t.Fatalf("exactly what is left: %v", err)
	}
	if _, err := l.Reserve(0); err == nil {
		t.Error("nothing is left, and yet a free call was let through")
	}
	l.Settle(a, 100)
	l.Settle(b, 0)
	if l.Spent() != 100 || l.Left() != 900 || l.Reserved() != 0 {
		t.Errorf("have spent %d, left %d, reserved %d", l.Spent(), l.Left(), l.Reserved())
	}
	if l.Settle(a, 100) || l.Spent() != 100 {
		t.Error("a reservation was settled twice")
	}
}

func TestWhatCostMoreThanReservedLeavesNothing(t *testing.T) {
	l := budget.NewLedger(1000)
	r, _ := l.Reserve(500)
	l.Settle(r, math.MaxInt64)
	if l.Left() != 0 {
		t.Errorf("have %d left", l.Left())
	}
	if _, err := l.Reserve(1); err == nil {
		t.Error("an overdrawn budget gave more")
	}
}

func TestNoBudgetAllowsNothing(t *testing.T) {
	for _, l := range []*budget.Ledger{budget.NewLedger(0), budget.NewLedger(-1), {}} {
		for _, amount := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			if _, err := l.Reserve(amount); err == nil {
				t.Errorf("a budget of nothing gave %d", amount)
			}
		}
	}
}

func TestLedgerNeverGivesMoreThanItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1_000_000).Draw(t, "limit")
		l := budget.NewLedger(limit)
		open := map[budget.Reservation]int64{}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			amount := rapid.Int64Range(0, limit).Draw(t, "amount")
			if r, err := l.Reserve(amount); err == nil {
				open[r] = amount
			}
			for r, reserved := range open {
				if rapid.Bool().Draw(t, "settle") {
					l.Settle(r, rapid.Int64Range(0, reserved).Draw(t, "cost"))
					delete(open, r)
				}
				break
			}
			if l.Spent()+l.Reserved() > limit {
				t.Fatalf("spent %d and reserved %d of %d", l.Spent(), l.Reserved(), limit)
			}
		}
	})
}

func TestPrices(t *testing.T) {
	opus, err := budget.ListPrices().Lookup("claude-opus-5-5")
	if err != nil {
		t.Fatal(err)
	}
	haiku, _ := budget.ListPrices().Lookup("claude-haiku-5-5")
	tests := map[string]struct {
		price budget.Price
		usage budget.Usage
		want  int64
	}{
		"ten in, five out":                   {opus, budget.Usage{Input: 10, Output: 5}, 140},
		"a fraction is rounded up":           {haiku, budget.Usage{Output: 1}, 1},
		"cache writes and reads":             {opus, budget.Usage{CacheWrite: 1e6, CacheWriteLong: 1e6, CacheRead: 1e6}, 13_200_000},
		"at the long mark":                   {haiku, budget.Usage{Input: 100_000}, 10_000},
		"over the long mark":                 {haiku, budget.Usage{Input: 100_000, CacheRead: 1}, 50_005},
		"negative counts are nothing":        {opus, budget.Usage{Input: -5, Output: math.MinInt64}, 0},
		"absurd counts do not overflow":      {opus, budget.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, 24_000_000_000},
		"nothing costs nothing":              {opus, budget.Usage{}, 0},
		"a free model costs nothing":         {budget.Price{Free: true}, budget.Usage{Input: 1e6, Output: 1e6}, 0},
		"the dearest prices do not overflow": {dearest(), budget.Usage{Input: math.MaxInt64, Output: math.MaxInt64, CacheWrite: math.MaxInt64, CacheWriteLong: math.MaxInt64, CacheRead: math.MaxInt64}, 5 * 1_500_000_000_000},
	}
	for name, test := range tests {
		if have := test.price.Cost(test.usage); have != test.want {
			t.Errorf("%s: have %d, want %d", name, have, test.want)
		}
	}
}

func dearest() budget.Price {
	const m = budget.MaxPrice
	return budget.Price{Input: m, Output: m, CacheWrite: m, CacheWriteLong: m, CacheRead: m}
}

func TestMostIsNeverLessThanCost(t *testing.T) {
	tokens := rapid.Int64Range(0, 2_000_000)
	rapid.Check(t, func(t *rapid.T) {
		table := budget.ListPrices()
		for id := range table {
			p, err := table.Lookup(id)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			u := budget.Usage{
				Input: tokens.Draw(t, "in"), Output: tokens.Draw(t, "out"), CacheWrite: tokens.Draw(t, "write"),
				CacheWriteLong: tokens.Draw(t, "long"), CacheRead: tokens.Draw(t, "read"),
			}
			if cost, most := p.Cost(u), p.Most(u.In(), u.Output); cost > most {
				t.Fatalf("%s: %+v costs %d, at most %d", id, u, cost, most)
			}
			left := tokens.Draw(t, "left")
			if out := p.Affordable(u.In(), left); out > 0 && p.Most(u.In(), out) > left {
				t.Fatalf("%s: %d output tokens are not covered by %d", id, out, left)
			}
		}
	})
}

func TestModelsWithoutAPriceAreRefused(t *testing.T) {
	table := budget.ListPrices()
	table["zero"] = budget.Price{}
	table["half"] = budget.Price{Input: 1}
	table["negative"] = budget.Price{Input: -1, Output: 1}
	table["absurd"] = budget.Price{Input: budget.MaxPrice + 1, Output: 1}
	table["free and not"] = budget.Price{Input: 1, Output: 1, Free: true}
	table["half a long price"] = budget.Price{Input: 1, Output: 1, LongAbove: 5}
	for _, model := range []string{"", "zero", "half", "negative", "absurd", "free and not", "half a long price", "gpt-9", "claude-opus-5-5-preview", "-20251001"} {
		if p, err := table.Lookup(model); err == nil {
			t.Errorf("%q has the price %+v", model, p)
		}
	}
	for _, model := range []string{"claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-sonnet-4-20250514"} {
		if _, err := table.Lookup(model); err != nil {
			t.Errorf("%q: %v", model, err)
		}
	}
}

func TestDollars(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0.00", 1: "$0.000001", 5_000_000: "$5.00", 12_500: "$0.012500", 1_230_000: "$1.23"} {
		if have := budget.Dollars(micro); have != want {
			t.Errorf("%d: have %s, want %s", micro, have, want)
		}
	}
}
