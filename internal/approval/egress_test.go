package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
)

func egressQuestion(t *testing.T, host string) nacre.Question {
	t.Helper()
	q, err := approval.EgressQuestion(nacre.EgressRule{Host: host, Port: 443}, "the agent tried to reach it")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// M-23, M-42: a proposal has its id at once, and is settled as every question is.
func TestAProposalIsSettledOnceAndNobodyWaits(t *testing.T) {
	for name, c := range map[string]struct {
		settle func(*approval.Desk, string) error
		want   nacre.Verdict
		err    error
		record string
	}{
		"approved": {func(d *approval.Desk, id string) error {
			return press(d, id, nacre.Ruling{Verdict: nacre.Allow, By: "ada"})
		}, nacre.Allow, nil, "approval.claim approved"},
		"denied": {func(d *approval.Desk, id string) error {
			return press(d, id, nacre.Ruling{Verdict: nacre.Deny, By: "ada"})
		}, nacre.Deny, nil, "approval.claim denied"},
		"unanswered": {func(*approval.Desk, string) error { time.Sleep(time.Hour); return nil }, nacre.Deny, approval.ErrExpired, "approval.claim expired"},
		"closed":     {func(d *approval.Desk, _ string) error { return d.Close() }, nacre.Deny, approval.ErrClosed, "approval.claim closed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{}
				d, asked := desk(l)
				decided := make(chan answer, 2)
				id, err := d.Propose(context.Background(), egressQuestion(t, "a.example"), func(q nacre.Question, r nacre.Ruling, err error) {
					if q.Session != "s1" || q.Capability != approval.Egress {
						t.Errorf("have %+v", q)
					}
					decided <- answer{r, err}
				})
				if err != nil || id == "" || (<-asked).ID != id {
					t.Fatalf("have %q %v", id, err)
				}
				if err := c.settle(d, id); err != nil {
					t.Fatal(err)
				}
				have := <-decided
				if have.ruling.Verdict != c.want || !errors.Is(have.err, c.err) {
					t.Errorf("have %+v", have)
				}
				if l.outcomes()[0] != c.record {
					t.Errorf("have %q", l.outcomes())
				}
				if err := press(d, id, nacre.Ruling{Verdict: nacre.Allow, By: "late"}); err == nil {
					t.Error("a late answer is taken")
				}
				if err := d.Close(); err != nil || len(decided) != 0 {
					t.Errorf("have %v, decided %d more", err, len(decided))
				}
			})
		})
	}
}

func TestAProposalThatCannotBeAskedIsNotMade(t *testing.T) {
	d, _ := desk(&ledger{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	id, err := d.Propose(context.Background(), egressQuestion(t, "a.example"), func(nacre.Question, nacre.Ruling, error) { t.Error("decided") })
	if !errors.Is(err, approval.ErrClosed) || id != "" {
		t.Errorf("have %q %v", id, err)
	}
}

// M-23: a person sees the host, the port, for how long, and what to look at.
func TestAProposalShowsWhatWouldOpen(t *testing.T) {
	q := egressQuestion(t, "xn--pypl-epa.example")
	q.ID, q.Group = "7d2q", "main"
	have := approval.Render(q)
	for _, part := range []string{"? 7d2q  main wants to reach", "xn--pypl-epa.example:443 (tls)", "for 30 minutes", "this session only", "another alphabet", "the agent tried"} {
		if !strings.Contains(have, part) {
			t.Errorf("no %q in\n%s", part, have)
		}
	}
	if have := approval.Render(question()); strings.Contains(have, "wants to reach") {
		t.Errorf("a tool's question shows\n%s", have)
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		ruling nacre.Ruling
		want   time.Duration
	}{
		{nacre.Ruling{}, 0}, {nacre.Ruling{For: time.Hour}, 0}, {nacre.Ruling{Verdict: nacre.Ask}, 0}, {nacre.Ruling{Verdict: nacre.Allow}, approval.EgressSpan},
		{nacre.Ruling{Verdict: nacre.Allow, For: time.Minute}, time.Minute}, {nacre.Ruling{Verdict: nacre.Allow, For: 100 * time.Hour}, approval.MaxStanding},
	} {
		if have := approval.Span(c.ruling); have != c.want {
			t.Errorf("%+v: have %v, want %v", c.ruling, have, c.want)
		}
	}
}
