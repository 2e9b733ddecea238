package ledger_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/ledger"
)

// M-54: what runs in a project really took, of one provider's model. What came to no result of its
// own, asked no model or was forgotten says nothing.
func TestEffortsOfAProject(t *testing.T) {
	l := open(t, file(t))
	finish := func(n byte, status ledger.Status, change func(*ledger.End)) {
		t.Helper()
		s := start("a1", "", n)
		s.Session = "s" + string('0'+rune(n))
		e := ledger.End{Status: status, CostMicroUSD: int64(n), TokensIn: 1, Project: "/p", Tries: 1, Anchor: anchor(100)}
		change(&e)
		if err := l.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(t.Context(), s.DNA, e); err != nil {
			t.Fatal(err)
		}
	}
	finish(1, ledger.Done, func(*ledger.End) {})
	finish(2, ledger.Failed, func(e *ledger.End) { e.Tries = 3 })
	finish(3, ledger.Done, func(e *ledger.End) { e.Project = "/q" })
	finish(4, ledger.Done, func(e *ledger.End) { e.Tries = 0 })
	finish(5, ledger.Done, func(e *ledger.End) { e.TokensIn = 0 })
	finish(6, ledger.Done, func(e *ledger.End) { e.Model = "another" })
	finish(7, ledger.Done, func(e *ledger.End) { e.Outcome = ledger.WeakCheck(false) })
	if err := l.Begin(t.Context(), start("a1", "", 8)); err != nil {
		t.Fatal(err)
	}
	past, err := ledger.Efforts(t.Context(), l, "/p", "p", "m")
	if err != nil || len(past) != 3 {
		t.Fatalf("have %+v, %v", past, err)
	}
	for i, want := range []ledger.Effort{{Cost: 7, Tries: 1, Failed: true}, {Cost: 2, Tries: 3, Failed: true}, {Cost: 1, Tries: 1}} {
		have := past[i]
		if !strings.Contains(have.Task, "do it") {
			t.Errorf("the task of %d is %q", i, have.Task)
		}
		if have.Task = ""; have != want {
			t.Errorf("have %+v, want %+v", have, want)
		}
	}
	for _, bad := range []ledger.End{{Status: ledger.Done, Tries: -1, Anchor: anchor(1)}, {Status: ledger.Done, Project: strings.Repeat("x", 5000), Anchor: anchor(1)}} {
		if err := l.Finish(t.Context(), "a1", bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
