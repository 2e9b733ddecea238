package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/ledger"
)

func clock() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func open(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	l, err := openAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "state", "ledger.sqlite") }

// start is a run of an agent; n keeps runs apart.
func start(id, parent string, n byte) ledger.Start {
	task := atom.Task{Parameters: atom.Parameters{Role: "edit-local", AgentID: id, Whitelist: []string{"a/**"}}, Parent: parent, Body: "do it\n"}
	return ledger.Start{
		ID: id, Role: "edit-local", Parent: parent, Branch: "nacre/x", Session: "s1", Task: task.Canonical(), SpecSHA: task.SpecSHA(), Prompt: "You MUST.\n",
		DNA: dna.Compose(task, nil, [4]byte{n}).String(), Provider: "p", Model: "m", Anchor: anchor(uint64(n)),
	}
}

func anchor(seq uint64) ledger.Anchor {
	return ledger.Anchor{Chain: "session-s1", Seq: seq, Hash: strings.Repeat("ab", 32)}
}

func end(s ledger.Status) ledger.End { return ledger.End{Status: s, Anchor: anchor(100)} }

// S-15: a run from its begin to its landing, with all that is kept of it.
func TestRun(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	path := file(t)
	l, err := openAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	s := start("a1", "", 1)
	steps := []func() error{
		func() error { return l.Begin(t.Context(), s) },
		func() error {
			return l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Done, Summary: "Did it.", CostMicroUSD: 1234, TokensIn: 10, TokensOut: 20, Model: "m2",
				Outcome: ledger.StrongCheck(true), Anchor: anchor(7)})
		},
		func() error {
			return l.Merge(t.Context(), s.DNA, ledger.Landing{Reason: "main at abc", Outcome: ledger.WeakCheck(false), Anchor: anchor(9)})
		},
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatal(i, err)
		}
	}
	e, err := l.Show(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	if e.ID != "a1" || e.Status != ledger.Merged || e.Summary != "Did it." || e.Cost != 1234 || e.TokensIn != 10 || e.TokensOut != 20 || e.Provider != "p" || e.Model != "m2" ||
		e.Branch != "nacre/x" || e.Session != "s1" || e.Started != "2026-05-01T12:00:00.000Z" || e.Finished != e.Started || e.DNA != s.DNA || e.SpecSHA != s.SpecSHA {
		t.Errorf("%+v", e.Run)
	}
	if e.Task != string(s.Task) || e.Prompt != s.Prompt {
		t.Errorf("%q %q", e.Task, e.Prompt)
	}
	if !e.Outcome.Verified() || e.Outcome != ledger.StrongCheck(true) {
		t.Errorf("a weak check took the place of a strong one: %v", e.Outcome)
	}
	var have []string
	for _, c := range e.Changes {
		have = append(have, fmt.Sprint(c.Status, " ", c.Anchor.Chain, " ", c.Anchor.Seq, " ", c.Reason))
	}
	if want := []string{"running session-s1 1 ", "done session-s1 7 ", "merged session-s1 9 main at abc"}; !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := open(t, path).Show(t.Context(), s.DNA); err != nil || again.Run != e.Run {
		t.Errorf("%+v, %v", again, err)
	}
}

// S-15: done and failed only from running, merged and rejected only from done.
func TestTransitions(t *testing.T) {
	l := open(t, file(t))
	moves := map[ledger.Status]func(id string) error{
		ledger.Done:     func(id string) error { return l.Finish(t.Context(), id, end(ledger.Done)) },
		ledger.Failed:   func(id string) error { return l.Finish(t.Context(), id, end(ledger.Failed)) },
		ledger.Merged:   func(id string) error { return l.Merge(t.Context(), id, ledger.Landing{Anchor: anchor(1)}) },
		ledger.Rejected: func(id string) error { return l.Reject(t.Context(), id, ledger.Landing{Anchor: anchor(1)}) },
	}
	ways := map[ledger.Status][]ledger.Status{
		ledger.Running: nil, ledger.Done: {ledger.Done}, ledger.Failed: {ledger.Failed},
		ledger.Merged: {ledger.Done, ledger.Merged}, ledger.Rejected: {ledger.Done, ledger.Rejected},
	}
	var n byte
	for from, way := range ways {
		for to, move := range moves {
			n++
			id := fmt.Sprintf("a%d", n)
			if err := l.Begin(t.Context(), start(id, "", n)); err != nil {
				t.Fatal(err)
			}
			for _, step := range way {
				if err := moves[step](id); err != nil {
					t.Fatal(err)
				}
			}
			want := from == ledger.Running && (to == ledger.Done || to == ledger.Failed) || from == ledger.Done && (to == ledger.Merged || to == ledger.Rejected)
			err := move(id)
			if (err == nil) != want || err != nil && !errors.Is(err, ledger.ErrTransition) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			e, err := l.Show(t.Context(), id)
			if state := map[bool]ledger.Status{true: to, false: from}[want]; err != nil || e.Status != state {
				t.Errorf("from %s to %s: it is %s, %v", from, to, e.Status, err)
			}
		}
	}
	if err := l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Merged, Anchor: anchor(1)}); !errors.Is(err, ledger.ErrTransition) {
		t.Errorf("ended as merged: %v", err)
	}
	if err := l.Finish(t.Context(), "nobody", end(ledger.Done)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("have %v", err)
	}
}

// F-96: a run that no session works on is interrupted: its agent may run again, and it
// goes on, ends or is given up.
func TestAnInterruptedRunBlocksNobody(t *testing.T) {
	l := open(t, file(t))
	first, second := start("a1", "", 1), start("a1", "", 2)
	status := func(ref string) ledger.Status {
		t.Helper()
		e, err := l.Show(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return e.Status
	}
	for i, err := range []error{
		l.Begin(t.Context(), first), l.Interrupt(t.Context(), first.DNA, "killed", anchor(2)), l.Begin(t.Context(), second),
	} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	if status(first.DNA) != ledger.Interrupted || status(second.DNA) != ledger.Running {
		t.Errorf("have %s, %s", status(first.DNA), status(second.DNA))
	}
	for _, s := range []ledger.Status{ledger.Running, ledger.Interrupted} {
		if list, err := l.List(t.Context(), ledger.Filter{Status: s}); err != nil || len(list) != 1 || list[0].Status != s {
			t.Errorf("%s: have %v, %v", s, list, err)
		}
	}
	if err := l.Resume(t.Context(), first.DNA, anchor(3)); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("two run at once: %v", err)
	}
	if err := l.Interrupt(t.Context(), first.DNA, "", anchor(3)); !errors.Is(err, ledger.ErrTransition) {
		t.Errorf("interrupted twice: %v", err)
	}
	if err := l.Decide(t.Context(), first.DNA, ledger.Landing{Outcome: ledger.PersonDecision(true, "p"), Anchor: anchor(3)}); !errors.Is(err, ledger.ErrTransition) {
		t.Errorf("decided before its end: %v", err)
	}
	if err := l.Finish(t.Context(), second.DNA, end(ledger.Done)); err != nil {
		t.Fatal(err)
	}
	if err := l.Resume(t.Context(), first.DNA, anchor(4)); err != nil || status(first.DNA) != ledger.Running {
		t.Errorf("it goes on: %v, %s", err, status(first.DNA))
	}
	anchors := func(string, string) (string, uint64, string, error) { return "ended", 1, strings.Repeat("ab", 32), nil }
	if err := l.InterruptSession(t.Context(), "another", "killed", anchors); err != nil || status(first.DNA) != ledger.Running {
		t.Errorf("of another session: %v, %s", err, status(first.DNA))
	}
	if err := l.InterruptSession(t.Context(), "s1", "killed", anchors); err != nil || status(first.DNA) != ledger.Interrupted || status(second.DNA) != ledger.Done {
		t.Errorf("with its session: %v, %s, %s", err, status(first.DNA), status(second.DNA))
	}
	if err := l.GiveUpSession(t.Context(), "s1", "given up", false, anchors); err != nil || status(first.DNA) != ledger.Failed || status(second.DNA) != ledger.Done {
		t.Errorf("given up: %v, %s, %s", err, status(first.DNA), status(second.DNA))
	}
	if err := l.Resume(t.Context(), first.DNA, anchor(5)); !errors.Is(err, ledger.ErrTransition) {
		t.Errorf("it went on after its end: %v", err)
	}
}

// S-15: a DNA names one run; an agent's id one that is running.
func TestTaken(t *testing.T) {
	l := open(t, file(t))
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]ledger.Start{"the same run": start("a1", "", 1), "the same agent": start("a1", "", 2)} {
		if err := l.Begin(t.Context(), s); !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.Finish(t.Context(), "a1", end(ledger.Failed)); err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(t.Context(), start("a1", "", 1)); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("a DNA names two runs: %v", err)
	}
	if err := l.Begin(t.Context(), start("a1", "", 2)); err != nil {
		t.Errorf("an agent cannot run again: %v", err)
	}
	if e, err := l.Show(t.Context(), "a1"); err != nil || e.Status != ledger.Running {
		t.Errorf("%+v, %v: the id does not mean the latest run", e.Run, err)
	}
	if e, err := l.Show(t.Context(), start("a1", "", 1).DNA); err != nil || e.Status != ledger.Failed {
		t.Errorf("%+v, %v", e.Run, err)
	}
	if list, err := l.List(t.Context(), ledger.Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%d rows, %v", len(list), err)
	}
}

// S-15: what is not a row is refused, and leaves nothing.
func TestBadRows(t *testing.T) {
	l := open(t, file(t))
	for name, spoil := range map[string]func(*ledger.Start){
		"no id":                  func(s *ledger.Start) { s.ID = "" },
		"an id with a slash":     func(s *ledger.Start) { s.ID = "a/b" },
		"a parent with a colon":  func(s *ledger.Start) { s.Parent = "a:b" },
		"no role":                func(s *ledger.Start) { s.Role = "" },
		"another role's DNA":     func(s *ledger.Start) { s.Role = "explorer" },
		"no DNA":                 func(s *ledger.Start) { s.DNA = "" },
		"a DNA of the seed":      func(s *ledger.Start) { s.DNA = "edit-local::NG::A7B2::C9F1-xa7c" },
		"another task's digest":  func(s *ledger.Start) { s.SpecSHA = strings.Repeat("0", 64) },
		"another digest's task":  func(s *ledger.Start) { s.Task = append(s.Task, '\n') },
		"a prompt that is bytes": func(s *ledger.Start) { s.Prompt = "\xff" },
		"a prompt too long":      func(s *ledger.Start) { s.Prompt = strings.Repeat("x", ledger.MaxText+1) },
		"a branch in two lines":  func(s *ledger.Start) { s.Branch = "a\nb" },
		"a model with an escape": func(s *ledger.Start) { s.Model = "\x1b[2J" },
		"no record":              func(s *ledger.Start) { s.Anchor = ledger.Anchor{} },
		"a record without hash":  func(s *ledger.Start) { s.Anchor.Hash = "" },
	} {
		s := start("a1", "", 1)
		spoil(&s)
		if err := l.Begin(t.Context(), s); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := l.List(t.Context(), ledger.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%d rows, %v", len(list), err)
	}
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]ledger.End{
		"no status":          {Anchor: anchor(1)},
		"no record":          {Status: ledger.Done},
		"a cost below zero":  {Status: ledger.Done, CostMicroUSD: -1, Anchor: anchor(1)},
		"a person with tabs": {Status: ledger.Done, Outcome: ledger.PersonDecision(true, "a\tb"), Anchor: anchor(1)},
	} {
		if err := l.Finish(t.Context(), "a1", e); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := l.Merge(t.Context(), "a1", ledger.Landing{}); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("merged without a record: %v", err)
	}
	long := strings.Repeat("ä", ledger.MaxSummary) + "\xff\x00"
	if err := l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Done, Summary: long, Anchor: anchor(1)}); err != nil {
		t.Fatalf("a run is lost over its report: %v", err)
	}
	if e, _ := l.Show(t.Context(), "a1"); len(e.Summary) > ledger.MaxSummary+4 || !strings.HasSuffix(e.Summary, "ä…") {
		t.Errorf("have %d bytes", len(e.Summary))
	}
}

// M-50: what counts as verified is a strong check's verdict or a person's.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		outcome          ledger.Outcome
		verified, counts bool
		text, json       string
	}{
		{ledger.Outcome{}, false, false, "not verified", "null"},
		{ledger.StrongCheck(true), true, true, "held (strong check)", `{"verdict":"held","by":"strong","counts":true}`},
		{ledger.StrongCheck(false), false, true, "failed (strong check)", `{"verdict":"failed","by":"strong","counts":true}`},
		{ledger.PersonDecision(true, "ada"), true, true, "held (person ada)", `{"verdict":"held","by":"person","who":"ada","counts":true}`},
		{ledger.PersonDecision(false, ""), false, true, "failed (person)", `{"verdict":"failed","by":"person","counts":true}`},
		{ledger.WeakCheck(true), false, false, "held (weak check: does not count)", `{"verdict":"held","by":"weak","counts":false}`},
	} {
		encoded, err := json.Marshal(c.outcome)
		if c.outcome.Verified() != c.verified || c.outcome.Counts() != c.counts || c.outcome.String() != c.text || string(encoded) != c.json || err != nil {
			t.Errorf("%v: %s, %v", c.outcome, encoded, err)
		}
	}
}

// M-50: what is known gets better and not worse.
func TestOutcomeOverTime(t *testing.T) {
	l := open(t, file(t))
	weak, strong, person := ledger.WeakCheck(true), ledger.StrongCheck(true), ledger.PersonDecision(false, "ada")
	for i, c := range []struct{ first, then, want ledger.Outcome }{
		{ledger.Outcome{}, ledger.Outcome{}, ledger.Outcome{}}, {weak, ledger.Outcome{}, weak}, {weak, strong, strong}, {strong, weak, strong},
		{strong, person, person}, {ledger.Outcome{}, person, person}, {strong, ledger.Outcome{}, strong},
	} {
		id := fmt.Sprintf("a%d", i)
		e := end(ledger.Done)
		e.Outcome = c.first
		err := errors.Join(l.Begin(t.Context(), start(id, "", byte(i))), l.Finish(t.Context(), id, e), l.Reject(t.Context(), id, ledger.Landing{Outcome: c.then, Anchor: anchor(1)}))
		if have, e2 := l.Show(t.Context(), id); err != nil || e2 != nil || have.Outcome != c.want {
			t.Errorf("%v then %v: have %v, want %v, %v", c.first, c.then, have.Outcome, c.want, err)
		}
	}
}

// M-50: a person decides on what has ended, takes every earlier verdict's place,
// and moves no status; nobody else decides afterwards.
func TestAPersonDecides(t *testing.T) {
	l := open(t, file(t))
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Fatal(err)
	}
	yes := ledger.Landing{Reason: "read it", Outcome: ledger.PersonDecision(true, "ada"), Anchor: anchor(8)}
	if err := l.Decide(t.Context(), "a1", yes); !errors.Is(err, ledger.ErrTransition) {
		t.Errorf("of a run that is running: %v", err)
	}
	if err := l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Failed, Outcome: ledger.StrongCheck(false), Anchor: anchor(7)}); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ledger.Outcome{"a check": ledger.StrongCheck(true), "a weak check": ledger.WeakCheck(true), "nobody": {}} {
		if err := l.Decide(t.Context(), "a1", ledger.Landing{Outcome: o, Anchor: anchor(8)}); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.Decide(t.Context(), "a1", ledger.Landing{Outcome: ledger.PersonDecision(true, "ada")}); err == nil {
		t.Error("a decision without a record was kept")
	}
	if err := l.Decide(t.Context(), "a1", yes); err != nil {
		t.Fatal(err)
	}
	e, err := l.Show(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != ledger.Failed || e.Outcome != ledger.PersonDecision(true, "ada") || !e.Outcome.Counts() || len(e.Changes) != 3 || e.Changes[2].Reason != "read it" {
		t.Errorf("have %+v", e)
	}
}

// S-15: tree and descendants; a parent that is not in the ledger is shown.
func TestTree(t *testing.T) {
	l := open(t, file(t))
	for i, pair := range [][2]string{{"root", "session-0"}, {"child", "root"}, {"grandchild", "child"}, {"other", ""}, {"second", "root"}} {
		if err := l.Begin(t.Context(), start(pair[0], pair[1], byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(t.Context(), "root", end(ledger.Done)); err != nil {
		t.Fatal(err)
	}
	for i, pair := range [][2]string{{"root", "grandchild"}, {"late", "root"}} { // the same id again, below itself
		if err := l.Begin(t.Context(), start(pair[0], pair[1], byte(10+i))); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := l.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if have, want := drawn(tree), "root(child(grandchild(root(late))) second) other"; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	if tree[0].Parent != "session-0" {
		t.Errorf("%+v", tree[0].Run)
	}
	below, err := l.Descendants(t.Context(), "child")
	var ids []string
	for _, r := range below {
		ids = append(ids, r.ID)
	}
	if want := []string{"grandchild", "root", "late"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("have %v, want %v, %v", ids, want, err)
	}
	if _, err := l.Descendants(t.Context(), "nobody"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("have %v", err)
	}
}

func drawn(nodes []*ledger.Node) string {
	var parts []string
	for _, n := range nodes {
		part := n.ID
		if len(n.Children) > 0 {
			part += "(" + drawn(n.Children) + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// S-15: rows by status, by the beginning of their DNA, and the latest of many.
func TestList(t *testing.T) {
	l := open(t, file(t))
	for i := range 5 {
		if err := l.Begin(t.Context(), start(fmt.Sprintf("a%d", i), "", byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(t.Context(), "a3", end(ledger.Failed)); err != nil {
		t.Fatal(err)
	}
	whole := start("a2", "", 2).DNA
	for name, c := range map[string]struct {
		filter ledger.Filter
		want   string
	}{
		"all":                     {ledger.Filter{}, "a4 a3 a2 a1 a0"},
		"the latest two":          {ledger.Filter{Limit: 2}, "a4 a3"},
		"by status":               {ledger.Filter{Status: ledger.Failed}, "a3"},
		"by role":                 {ledger.Filter{DNA: "edit-local::"}, "a4 a3 a2 a1 a0"},
		"by role and status":      {ledger.Filter{DNA: "edit-local::", Status: ledger.Running, Limit: 1}, "a4"},
		"by thirty characters":    {ledger.Filter{DNA: whole[:30]}, "a4 a3 a2 a1 a0"},
		"by more":                 {ledger.Filter{DNA: whole[:len(whole)-6]}, "a2"},
		"by all":                  {ledger.Filter{DNA: whole}, "a2"},
		"by another beginning":    {ledger.Filter{DNA: "edit-locam"}, ""},
		"by what is in the midst": {ledger.Filter{DNA: "local"}, ""},
		"by a pattern":            {ledger.Filter{DNA: "edit%"}, ""},
		"by bytes":                {ledger.Filter{DNA: "\xff'"}, ""},
	} {
		list, err := l.List(t.Context(), c.filter)
		var ids []string
		for _, r := range list {
			ids = append(ids, r.ID)
		}
		if have := strings.Join(ids, " "); err != nil || have != c.want {
			t.Errorf("%s: have %q, want %q, %v", name, have, c.want, err)
		}
	}
}

// A context that ends ends the wait.
func TestContext(t *testing.T) {
	l := open(t, file(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Begin(ctx, start("a1", "", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	if _, err := ledger.Open(ctx, file(t), clock); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}
