package ledger_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
)

// M-51: what runs that used a power came to, in the order in which it became known. They were verified,
// failed, or decided on by a person later, and a run without any of these says nothing.
func TestEvidenceOfAPower(t *testing.T) {
	l := open(t, file(t))
	run := func(n byte, status ledger.Status, outcome ledger.Outcome, powers ...string) string {
		t.Helper()
		s := start("a1", "", n)
		e := ledger.End{Status: status, Outcome: outcome, Anchor: anchor(uint64(n)), Uses: ledger.Uses{Powers: powers, Task: "t"}}
		if err := l.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(t.Context(), s.DNA, e); err != nil {
			t.Fatal(err)
		}
		return s.DNA
	}
	strong := run(1, ledger.Done, ledger.StrongCheck(true), "dns", "npm")
	weak := run(2, ledger.Done, ledger.WeakCheck(true), "dns")
	failed := run(3, ledger.Failed, ledger.Outcome{}, "dns")
	run(4, ledger.Done, ledger.StrongCheck(true))
	if err := l.Decide(t.Context(), weak, ledger.Landing{Outcome: ledger.PersonDecision(true, "ada"), Anchor: anchor(20)}); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Grant(t.Context(), l, "dns", clock().Add(time.Hour), "ada", anchor(21)); err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(t.Context(), strong, ledger.Landing{Outcome: ledger.PersonDecision(false, "ada"), Anchor: anchor(22)}); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Revoke(t.Context(), l, "dns", "ada", anchor(23)); err != nil {
		t.Fatal(err)
	}
	evidence, err := ledger.EvidenceOf(t.Context(), l, "dns")
	if err != nil || len(evidence) != 6 {
		t.Fatalf("have %+v, %v", evidence, err)
	}
	for i, want := range []struct {
		what, dna string
		record    uint64
	}{{ledger.Held, strong, 1}, {ledger.Broken, failed, 3}, {ledger.Held, weak, 20}, {ledger.Granted, "", 21}, {ledger.Broken, strong, 22}, {ledger.Revoked, "", 23}} {
		if have := evidence[i]; have.What != want.what || have.DNA != want.dna || have.Anchor.Seq != want.record {
			t.Errorf("%d: have %+v, want %+v", i, have, want)
		}
	}
	if until := evidence[3].Until; !until.Equal(clock().Add(time.Hour)) {
		t.Errorf("it is granted until %v", until)
	}
	if used, err := ledger.UsedBy(t.Context(), l, strong); err != nil || len(used) != 2 {
		t.Errorf("have %v, %v", used, err)
	}
	for _, bad := range []ledger.Uses{{Powers: []string{"dns"}}, {Powers: make([]string, 65), Task: "t"}, {Powers: []string{"a\nb"}, Task: "t"}} {
		if err := l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Done, Anchor: anchor(1), Uses: bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
