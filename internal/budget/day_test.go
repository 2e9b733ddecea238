package budget_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

var midnight = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// M-04: what was set aside and never ended stays charged, to its group and to all.
func TestADayCountsWhatIsSpentAndWhatIsHeld(t *testing.T) {
	var d budget.Day
	for _, e := range []budget.Entry{
		{ID: "1", Group: "a", MicroUSD: 500}, {ID: "2", Group: "b", MicroUSD: 300}, {ID: "1", Group: "a", MicroUSD: 100, Ended: true},
	} {
		if err := d.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	rooms := d.Rooms("a", budget.DayLimits{All: 1000, Group: 150}, midnight)
	if len(rooms) != 2 || rooms[0].Left != 50 || rooms[1].Left != 600 || rooms[1].Held != 300 {
		t.Errorf("have %+v", rooms)
	}
	if least := budget.Narrowest(rooms); least.Left != 50 || least.Which != "the day's budget of group a" {
		t.Errorf("have %+v", least)
	}
	if rooms := d.Rooms("c", budget.DayLimits{}, midnight); len(rooms) != 0 || budget.Narrowest(rooms).Left != math.MaxInt64 {
		t.Errorf("no limit is a limit: %+v", rooms)
	}
}

func TestALineThatDoesNotFitIsRefusedAndChangesNothing(t *testing.T) {
	for name, e := range map[string]budget.Entry{
		"no call":             {Group: "a", MicroUSD: 1},
		"no group":            {ID: "2", MicroUSD: 1},
		"less than nothing":   {ID: "2", Group: "a", MicroUSD: -1},
		"more than there is":  {ID: "2", Group: "a", MicroUSD: math.MaxInt64},
		"a call twice":        {ID: "1", Group: "a", MicroUSD: 1},
		"an end of nothing":   {ID: "2", Group: "a", Ended: true},
		"an end by a group":   {ID: "1", Group: "b", Ended: true},
		"an end with a gift":  {ID: "1", Group: "a", MicroUSD: -5, Ended: true},
		"an end that is late": {ID: "0", Group: "a", Ended: true},
	} {
		var d budget.Day
		for _, before := range []budget.Entry{{ID: "0", Group: "a"}, {ID: "0", Group: "a", Ended: true}, {ID: "1", Group: "a", MicroUSD: 7}} {
			if err := d.Apply(before); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Apply(e); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if left := d.Rooms("a", budget.DayLimits{All: 10}, midnight)[0].Left; left != 3 {
			t.Errorf("%s: have %d left", name, left)
		}
	}
}

func TestARefusalNamesTheBudgetHowMuchAndWhen(t *testing.T) {
	var d budget.Day
	_ = d.Apply(budget.Entry{ID: "1", Group: "main", MicroUSD: 900_000})
	err := budget.Narrowest(d.Rooms("main", budget.DayLimits{Group: 1_000_000}, midnight)).Short(200_000)
	var exhausted *budget.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.Left != 100_000 {
		t.Fatalf("have %v", err)
	}
	for _, want := range []string{"budget exhausted", "$0.20", "$0.10 of $1.00", "the day's budget of group main", "$0.90 is set aside", "refills at 2026-11-22 00:00 UTC"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

// However calls begin and end, what is left and what is spent or held are the limit.
func TestADayLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d budget.Day
		open := map[string]int64{}
		var spent, held int64
		for i := range rapid.IntRange(1, 60).Draw(t, "lines") {
			id := string(rune('a' + rapid.IntRange(0, 9).Draw(t, "id")))
			e := budget.Entry{ID: id, Group: nacre.Group("g"), MicroUSD: rapid.Int64Range(0, 1000).Draw(t, "amount")}
			before, known := open[id]
			if e.Ended = known; known {
				delete(open, id)
				spent, held = spent+e.MicroUSD, held-before
			} else {
				open[id] = e.MicroUSD
				held += e.MicroUSD
			}
			if err := d.Apply(e); err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
			room := d.Rooms("g", budget.DayLimits{Group: 1 << 40}, midnight)[0]
			if room.Left != 1<<40-spent-held || room.Held != held {
				t.Fatalf("have %+v, want %d spent, %d held", room, spent, held)
			}
		}
	})
}
