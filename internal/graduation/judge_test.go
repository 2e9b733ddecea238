package graduation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/ledger"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func at(day float64) time.Time { return start.Add(time.Duration(day * 24 * float64(time.Hour))) }

// held is a verified success of a task on a day.
func held(day float64, task string) ledger.Evidence {
	return ledger.Evidence{What: ledger.Held, At: at(day), Task: task, DNA: fmt.Sprint("run-", day, task)}
}

func broken(day float64) ledger.Evidence { return ledger.Evidence{What: ledger.Broken, At: at(day)} }

// granted is for a month.
func granted(day float64) ledger.Evidence {
	return ledger.Evidence{What: ledger.Granted, At: at(day), Until: at(day + 30)}
}

func sound(ledger.Evidence) error { return nil }

// five are enough: of three tasks, over a week.
func five(from float64) []ledger.Evidence {
	return []ledger.Evidence{held(from, "a"), held(from+1, "b"), held(from+2, "c"), held(from+3, "a"), held(from+7, "b")}
}

func with(list []ledger.Evidence, more ...ledger.Evidence) []ledger.Evidence {
	return append(append([]ledger.Evidence{}, list...), more...)
}

// M-51: what it takes before a power is proposed, and what takes it back.
func TestWhereAPowerStands(t *testing.T) {
	t.Parallel()
	again := held(7, "b")
	again.DNA = held(3, "a").DNA
	tainted := held(7, "b")
	tainted.Tainted = true
	for name, c := range map[string]struct {
		evidence []ledger.Evidence
		day      float64
		want     graduation.State
		counted  int
	}{
		"at first":                                  {nil, 0, graduation.Locked, 0},
		"five of three tasks over a week":           {five(0), 8, graduation.Proposed, 5},
		"four are too few":                          {five(0)[1:], 9, graduation.Locked, 4},
		"two tasks are too few":                     {[]ledger.Evidence{held(0, "a"), held(1, "b"), held(2, "a"), held(3, "b"), held(9, "a")}, 10, graduation.Locked, 5},
		"a day short of a week":                     {with(five(0)[:4], held(6.9, "b")), 10, graduation.Locked, 5},
		"time that only passes is no success":       {five(0)[:4], 100, graduation.Locked, 4},
		"a run counts once":                         {with(five(0)[:4], again), 10, graduation.Locked, 4},
		"a tainted run does not count":              {with(five(0)[:4], tainted), 10, graduation.Locked, 4},
		"a failure resets":                          {with(five(0), broken(8)), 9, graduation.Locked, 0},
		"it begins anew after it":                   {with(with(five(0), broken(8)), five(20)...), 30, graduation.Proposed, 5},
		"it is never granted by itself":             {with(five(0), five(20)...), 300, graduation.Proposed, 10},
		"a person grants it":                        {with(five(0), granted(8)), 37, graduation.Unlocked, 5},
		"a grant expires":                           {with(five(0), granted(8)), 38, graduation.Proposed, 5},
		"one failure demotes":                       {with(five(0), granted(8), broken(9)), 10, graduation.Locked, 0},
		"what was granted does not come back":       {with(five(0), granted(8), broken(9), held(10, "a")), 11, graduation.Locked, 1},
		"a person takes it back":                    {with(five(0), granted(8), ledger.Evidence{What: ledger.Revoked, At: at(9)}), 10, graduation.Locked, 0},
		"what is not known is a failure":            {with(five(0), granted(8), ledger.Evidence{What: "?", At: at(9)}), 10, graduation.Locked, 0},
		"a clock that went back proposes nothing":   {five(0), 6, graduation.Locked, 5},
		"a clock that went back grants nothing":     {with(five(0), granted(8)), 7.5, graduation.Locked, 5},
		"a success after it went back counts not":   {with(five(10)[:4], held(9, "b")), 20, graduation.Locked, 4},
		"a grant after it went back is none":        {with(five(0), granted(5)), 8, graduation.Proposed, 5},
		"a failure counts though the clock was set": {with(five(0), granted(8), broken(-90)), 10, graduation.Locked, 0},
	} {
		have := graduation.Judge(c.evidence, at(c.day), sound)
		if have.State != c.want || len(have.Counted) != c.counted {
			t.Errorf("%s: it is %s and %d count, want %s and %d: %v", name, have.State, len(have.Counted), c.want, c.counted, have.Missing)
		}
		if (have.State == graduation.Locked) != (len(have.Missing) > 0) || (have.State == graduation.Unlocked) == have.Until.IsZero() {
			t.Errorf("%s: it is %s until %v, and what is missing is %v", name, have.State, have.Until, have.Missing)
		}
	}
}

// M-51, bad input: evidence whose record is not there, or says something else, is left out and named.
func TestEvidenceThatWasEdited(t *testing.T) {
	t.Parallel()
	edited := five(0)
	have := graduation.Judge(edited, at(8), func(e ledger.Evidence) error {
		if e.DNA == edited[2].DNA {
			return errors.New("its record is another")
		}
		return nil
	})
	if have.State != graduation.Locked || len(have.Left) != 1 || have.Left[0].Why != "its record is another" {
		t.Errorf("have %+v", have)
	}
}

// M-51: months of work, one run a day: the power is proposed after the evidence, granted by a
// person alone, expires, and is lost at the first failure.
func TestMonthsOfWork(t *testing.T) {
	t.Parallel()
	var evidence []ledger.Evidence
	states := map[int]graduation.State{}
	for day := range 180 {
		now := float64(day)
		switch day {
		case 90:
			evidence = append(evidence, broken(now))
		default:
			evidence = append(evidence, held(now, fmt.Sprint("task-", day%3)))
		}
		standing := graduation.Judge(evidence, at(now+0.5), sound)
		if standing.State == graduation.Proposed && (day == 20 || day == 80) {
			evidence = append(evidence, ledger.Evidence{What: ledger.Granted, At: at(now + 0.6), Until: at(now + 30)})
			standing = graduation.Judge(evidence, at(now+0.7), sound)
		}
		states[day] = standing.State
	}
	for day, want := range map[int]graduation.State{
		0: graduation.Locked, 6: graduation.Locked, 7: graduation.Proposed, 19: graduation.Proposed, 20: graduation.Unlocked, 49: graduation.Unlocked,
		50: graduation.Proposed, 79: graduation.Proposed, 80: graduation.Unlocked, 89: graduation.Unlocked, 90: graduation.Locked, 97: graduation.Locked,
		98: graduation.Proposed, 179: graduation.Proposed,
	} {
		if states[day] != want {
			t.Errorf("on day %d it is %s, want %s", day, states[day], want)
		}
	}
}
