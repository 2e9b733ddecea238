package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
)

var _ nacre.Approver = (*approval.Desk)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a recorder that keeps its records, and fails where told to.
type ledger struct {
	mu      sync.Mutex
	records []nacre.Record
	fail    func(nacre.Record) error
}

func (l *ledger) Append(ctx context.Context, r nacre.Record) error { return l.Commit(ctx, r) }

func (l *ledger) Commit(ctx context.Context, r nacre.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(r); err != nil {
			return err
		}
	}
	l.records = append(l.records, r)
	return ctx.Err()
}

func (l *ledger) outcomes() (have []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		have = append(have, string(r.Kind)+" "+r.Outcome)
	}
	return have
}

func question() nacre.Question {
	return nacre.Question{
		Capability: "deploy.preview", Arguments: json.RawMessage(`{"env":"staging"}`), Digest: "d1",
		Why: "risk_level: high", AgentWords: "please",
	}
}

type answer struct {
	ruling nacre.Ruling
	err    error
}

// owner is a directory that configures nobody.
func owner() (person.Directory, error) {
	return person.Directory{Owner: strconv.Itoa(os.Geteuid())}, nil
}

// press answers as the user who runs the test, at a terminal that showed the question.
func press(d *approval.Desk, id string, r nacre.Ruling) error {
	q := nacre.Question{ID: id}
	for _, waiting := range d.List() {
		if waiting.ID == strings.TrimSpace(id) {
			q = waiting
		}
	}
	p := approval.Here(q, r)
	p.ID = id
	_, err := d.Press(p)
	return err
}

// desk makes a desk whose questions come out of a channel.
func desk(l *ledger) (*approval.Desk, chan nacre.Question) {
	asked := make(chan nacre.Question, 1000)
	d := approval.New(approval.Options{
		Now: time.Now, Recorder: l, Session: "s1", Group: "g1", Notify: func(q nacre.Question) { asked <- q }, Directory: owner,
	})
	return d, asked
}

func ask(ctx context.Context, d *approval.Desk, q nacre.Question) chan answer {
	done := make(chan answer, 1)
	go func() {
		r, err := d.Ask(ctx, q)
		done <- answer{r, err}
	}()
	return done
}

// D-13, M-42
func TestAnswerReachesTheOneWhoAsked(t *testing.T) {
	for name, want := range map[string]nacre.Verdict{"approved": nacre.Allow, "denied": nacre.Deny} {
		l := &ledger{}
		d, asked := desk(l)
		done := ask(t.Context(), d, question())
		q := <-asked
		if len(q.ID) != 4 || q.Session != "s1" || q.Group != "g1" || q.Expires.IsZero() {
			t.Errorf("%s: have %+v", name, q)
		}
		if list := d.List(); len(list) != 1 || list[0].ID != q.ID {
			t.Errorf("%s: have %v", name, list)
		}
		if err := press(d, q.ID, nacre.Ruling{Verdict: want, By: "terminal"}); err != nil {
			t.Fatal(err)
		}
		have := <-done
		if have.err != nil || have.ruling != (nacre.Ruling{Verdict: want, By: "terminal", Digest: "d1"}) {
			t.Errorf("%s: have %+v", name, have)
		}
		if have := fmt.Sprint(l.outcomes()); have != "[approval.claim "+name+"]" {
			t.Errorf("have %s", have)
		}
		if err := press(d, q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "web"}); !errors.Is(err, approval.ErrLate) {
			t.Errorf("%s: second answer: have %v", name, err)
		}
		if len(d.List()) != 0 {
			t.Errorf("%s: an answered question still waits", name)
		}
	}
}

func TestEverythingElseDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		d, asked := desk(l)
		start := time.Now()
		done := ask(t.Context(), d, question())
		q := <-asked
		if have := <-done; !errors.Is(have.err, approval.ErrExpired) || have.ruling.Verdict != nacre.Deny || time.Since(start) != approval.DefaultTTL {
			t.Errorf("unanswered: have %+v after %v", have, time.Since(start))
		}
		if !errors.Is(approval.ErrExpired, context.DeadlineExceeded) { // so that the kernel calls it a time-out (D-13)
			t.Error("an expired question is not a deadline's end")
		}
		if err := press(d, q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x"}); !errors.Is(err, approval.ErrLate) {
			t.Errorf("late: have %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done = ask(ctx, d, question())
		<-asked
		cancel()
		if have := <-done; !errors.Is(have.err, context.Canceled) {
			t.Errorf("cancelled: have %+v", have)
		}
		done = ask(t.Context(), d, question())
		<-asked
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if have := <-done; !errors.Is(have.err, approval.ErrClosed) {
			t.Errorf("closed: have %+v", have)
		}
		if _, err := d.Ask(t.Context(), question()); !errors.Is(err, approval.ErrClosed) {
			t.Errorf("after close: have %v", err)
		}
		want := "[approval.claim expired approval.refuse denied approval.claim ended approval.claim closed]"
		if have := fmt.Sprint(l.outcomes()); have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	})
}

func TestQuestionThatCannotBeBoundIsNotAsked(t *testing.T) {
	d, _ := desk(&ledger{})
	for name, change := range map[string]func(*nacre.Question){
		"no digest":     func(q *nacre.Question) { q.Digest = "" },
		"no capability": func(q *nacre.Question) { q.Capability = "" },
		"expired":       func(q *nacre.Question) { q.Expires = time.Unix(1, 0) },
	} {
		q := question()
		change(&q)
		if _, err := d.Ask(t.Context(), q); !errors.Is(err, approval.ErrNotAsked) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	for name, d := range map[string]*approval.Desk{
		"no recorder": approval.New(approval.Options{Now: time.Now}),
		"no clock":    approval.New(approval.Options{Recorder: &ledger{}}),
	} {
		if _, err := d.Ask(t.Context(), question()); !errors.Is(err, approval.ErrNotAsked) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

func TestBrokenChainDenies(t *testing.T) { // K-21
	broken := errors.New("disk full")
	l := &ledger{fail: func(nacre.Record) error { return broken }}
	d, asked := desk(l)
	done := ask(t.Context(), d, question())
	if err := press(d, (<-asked).ID, nacre.Ruling{Verdict: nacre.Allow, By: "x"}); !errors.Is(err, broken) {
		t.Errorf("answer: have %v", err)
	}
	if have := <-done; !errors.Is(have.err, broken) || have.ruling.Verdict != nacre.Deny {
		t.Errorf("have %+v", have)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	d, asked := desk(&ledger{})
	done := ask(t.Context(), d, question())
	q := <-asked
	for name, c := range map[string]struct {
		id     string
		ruling nacre.Ruling
		want   error
	}{
		"ask":                       {q.ID, nacre.Ruling{Verdict: nacre.Ask, By: "x"}, approval.ErrAnswer},
		"beyond":                    {q.ID, nacre.Ruling{Verdict: 9, By: "x"}, approval.ErrAnswer},
		"by nobody":                 {q.ID, nacre.Ruling{Verdict: nacre.Allow}, approval.ErrAnswer},
		"unknown id":                {"zzzzz", nacre.Ruling{Verdict: nacre.Allow, By: "x"}, approval.ErrUnknown},
		"no id":                     {"", nacre.Ruling{Verdict: nacre.Allow, By: "x"}, approval.ErrUnknown},
		"part of an id":             {q.ID[:2], nacre.Ruling{Verdict: nacre.Allow, By: "x"}, approval.ErrUnknown},
		"a time without a scope":    {q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x", For: time.Hour}, approval.ErrAnswer},
		"a scope without a time":    {q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x", Scope: nacre.ScopeTool}, approval.ErrAnswer},
		"a time that is too long":   {q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x", For: approval.MaxStanding + 1, Scope: nacre.ScopeSame}, approval.ErrAnswer},
		"a time that is negative":   {q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x", For: -1, Scope: nacre.ScopeSame}, approval.ErrAnswer},
		"a scope that is not known": {q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x", For: 1, Scope: 7}, approval.ErrAnswer},
	} {
		if err := press(d, c.id, c.ruling); !errors.Is(err, c.want) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if err := press(d, " "+q.ID+" ", nacre.Ruling{Verdict: nacre.Deny, By: "x"}); err != nil {
		t.Error(err)
	}
	<-done
}

func TestExpiryHoldsEvenIfTheTimerIsLate(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	asked := make(chan nacre.Question, 1)
	d := approval.New(approval.Options{Now: clock, Recorder: &ledger{}, Notify: func(q nacre.Question) { asked <- q }, Directory: owner})
	done := ask(t.Context(), d, question())
	q := <-asked
	mu.Lock()
	now = now.Add(approval.DefaultTTL) // the machine slept
	mu.Unlock()
	if err := press(d, q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x"}); !errors.Is(err, approval.ErrLate) {
		t.Errorf("have %v", err)
	}
	if have := <-done; !errors.Is(have.err, approval.ErrExpired) {
		t.Errorf("have %+v", have)
	}
}

func TestOnlySoManyQuestionsWait(t *testing.T) {
	d, asked := desk(&ledger{})
	var all []chan answer
	for range approval.MaxPending {
		all = append(all, ask(t.Context(), d, question()))
		<-asked
	}
	if _, err := d.Ask(t.Context(), question()); !errors.Is(err, approval.ErrFull) {
		t.Errorf("have %v", err)
	}
	_ = d.Close()
	for _, done := range all {
		if have := <-done; !errors.Is(have.err, approval.ErrClosed) {
			t.Errorf("have %+v", have)
		}
	}
}

// What waits can be listed whole: a question that would make the list too large is not asked, and
// those that wait are seen by all.
func TestQuestionsAreOnlySoLarge(t *testing.T) {
	d, asked := desk(&ledger{})
	large := question()
	large.Arguments = json.RawMessage(`"` + strings.Repeat("<", 1<<20) + `"`) // six bytes each, where they are written as Go does
	var all []chan answer
	for {
		done := ask(t.Context(), d, large)
		select {
		case <-asked:
			all = append(all, done)
			continue
		case have := <-done:
			if !errors.Is(have.err, approval.ErrFull) || len(all) == 0 {
				t.Errorf("have %+v after %d", have, len(all))
			}
		}
		break
	}
	text, err := json.Marshal(d.List())
	if err != nil || len(text) > approval.MaxBytes+approval.MaxPending {
		t.Errorf("a list of %d bytes, %v", len(text), err)
	}
	if err := press(d, d.List()[0].ID, nacre.Ruling{Verdict: nacre.Deny, By: "a test"}); err != nil {
		t.Fatal(err)
	}
	all = append(all, ask(t.Context(), d, large)) // there is room again
	<-asked
	_ = d.Close()
	for _, done := range all {
		<-done
	}
}

// Three faces answer each question at once; exactly one succeeds, and its
// verdict is what the asker gets.
func TestRacingAnswersCountOnce(t *testing.T) {
	l := &ledger{}
	d, asked := desk(l)
	var wg sync.WaitGroup
	for range 40 {
		done := ask(t.Context(), d, question())
		q := <-asked
		wins := make(chan nacre.Verdict, 3)
		for i, v := range []nacre.Verdict{nacre.Allow, nacre.Deny, nacre.Allow} {
			wg.Go(func() {
				switch err := press(d, q.ID, nacre.Ruling{Verdict: v, By: fmt.Sprint("face ", i)}); {
				case err == nil:
					wins <- v
				case !errors.Is(err, approval.ErrLate):
					t.Error(err)
				}
			})
		}
		have := <-done
		wg.Wait()
		if len(wins) != 1 || have.err != nil || have.ruling.Verdict != <-wins {
			t.Fatalf("have %+v with %d winners", have, len(wins)+1)
		}
	}
	settled := slices.DeleteFunc(l.outcomes(), func(outcome string) bool { return strings.HasPrefix(outcome, "approval.refuse") })
	if have := len(settled); have != 40 {
		t.Errorf("have %d records", have)
	}
}

// An answer that comes while the desk closes either counts or says that it does not.
func TestClosingWhileAnswering(t *testing.T) {
	for range 50 {
		d, asked := desk(&ledger{})
		done := ask(t.Context(), d, question())
		q := <-asked
		answered := make(chan error, 1)
		go func() { answered <- press(d, q.ID, nacre.Ruling{Verdict: nacre.Allow, By: "x"}) }()
		_ = d.Close()
		have, err := <-done, <-answered
		if (err == nil) != (have.err == nil) || (have.ruling.Verdict == nacre.Allow) != (err == nil) {
			t.Fatalf("answer: %v, asker: %+v", err, have)
		}
	}
}
