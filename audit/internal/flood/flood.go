// Package flood promises that many equal records that somebody else can cause at will take few lines.
// The first ones of a minute are recorded, and the others are counted in one.
package flood

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// The bounds of a [Recorder].
const (
	// window is the time over which equal records are one flood.
	window = time.Minute
	// sweep is how often it is looked for windows that are over.
	sweep = time.Second
	// each is how many equal records of a window get a line of their own.
	each = 20
	// kinds is how many different records it tells apart at once; what
	// goes beyond shares one count a kind.
	kinds = 256
)

// Recorder passes records on. Equal means: all members but time, correlation and detail.
type Recorder struct {
	next     nacre.Recorder
	now      func() time.Time
	timeForm string

	mu     sync.Mutex
	floods map[sort]*flood
	swept  time.Time // when it was last looked for windows that are over
}

// sort is what equal records have in common.
type sort struct {
	kind                           nacre.Kind
	group                          nacre.Group
	session                        nacre.SessionID
	source, topic, outcome, reason string
	stage                          int
}

// flood is what a window saw of equal records.
type flood struct {
	key         sort
	since       time.Time // of the window
	seen        int
	held        int
	first, last time.Time // of those held
}

// New passes records on to next. The times in a count have the form. Close it before next.
func New(next nacre.Recorder, now func() time.Time, timeForm string) *Recorder {
	return &Recorder{next: next, now: now, timeForm: timeForm, floods: map[sort]*flood{}}
}

// Append implements [nacre.Recorder].
func (a *Recorder) Append(ctx context.Context, r nacre.Record) error {
	return a.pass(ctx, r, a.next.Append)
}

// Commit implements [nacre.Recorder]. A record that is held is durable with the
// count that follows; nobody acts on a rejection.
func (a *Recorder) Commit(ctx context.Context, r nacre.Record) error {
	return a.pass(ctx, r, a.next.Commit)
}

func (a *Recorder) pass(ctx context.Context, r nacre.Record, on func(context.Context, nacre.Record) error) error {
	now := a.now()
	own, due := a.count(r, now)
	if err := a.tell(ctx, due); err != nil {
		return err
	}
	if !own {
		return nil
	}
	return on(ctx, r)
}

// count reports whether the record gets a line of its own, and which floods
// have come to the end of their window.
func (a *Recorder) count(r nacre.Record, now time.Time) (own bool, due []flood) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due = a.ended(now)
	if !mayFlood(r) {
		return true, due
	}
	f := a.floodOf(r, now)
	if f.seen++; f.seen <= each {
		return true, due
	}
	if r.Time.IsZero() {
		r.Time = now
	}
	if f.held++; f.held == 1 {
		f.first = r.Time
	}
	f.last = r.Time
	return false, due
}

// mayFlood says which records somebody else can cause at will without any effect.
func mayFlood(r nacre.Record) bool {
	return r.Kind == nacre.KindCallReject || r.Kind == nacre.KindEgress && r.Outcome != nacre.OutcomeAllowed
}

// floodOf is called with mu held.
func (a *Recorder) floodOf(r nacre.Record, now time.Time) *flood {
	key := sort{r.Kind, r.Group, r.Session, r.Source, r.Topic, r.Outcome, r.Reason, r.Stage}
	f, ok := a.floods[key]
	if !ok && len(a.floods) >= kinds {
		key = sort{kind: r.Kind, group: r.Group, session: r.Session, outcome: r.Outcome, reason: "many different"}
		f, ok = a.floods[key]
	}
	if !ok {
		f = &flood{key: key, since: now}
		a.floods[key] = f
	}
	return f
}

// ended takes out the floods whose window is over; a clock that went back ends
// it too. It is called with mu held, and looks only when there is a reason.
func (a *Recorder) ended(now time.Time) (due []flood) {
	if since := now.Sub(a.swept); since >= 0 && since < sweep {
		return nil
	}
	a.swept = now
	for key, f := range a.floods {
		if age := now.Sub(f.since); age >= 0 && age < window {
			continue
		}
		delete(a.floods, key)
		if f.held > 0 {
			due = append(due, *f)
		}
	}
	return due
}

// tell records the counts, the oldest first.
func (a *Recorder) tell(ctx context.Context, due []flood) error {
	slices.SortFunc(due, func(x, y flood) int { return x.first.Compare(y.first) })
	for i, f := range due {
		if err := a.next.Append(ctx, f.record(a.timeForm)); err != nil {
			a.putBack(due[i:])
			return err
		}
	}
	return nil
}

// putBack keeps what could not be told for the next attempt.
func (a *Recorder) putBack(floods []flood) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range floods {
		if have, ok := a.floods[f.key]; ok {
			have.held, have.first = have.held+f.held, f.first
			have.last = later(have.last, f.last)
			continue
		}
		a.floods[f.key] = &f
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f flood) record(timeForm string) nacre.Record {
	detail, _ := json.Marshal(map[string]any{ // texts and a number
		"repeated": f.held, "first": f.first.UTC().Format(timeForm), "last": f.last.UTC().Format(timeForm),
	})
	k := f.key
	return nacre.Record{
		Kind: k.kind, Time: f.last, Group: k.group, Session: k.session, Source: k.source, Topic: k.topic,
		Stage: k.stage, Outcome: k.outcome, Reason: k.reason, Detail: detail,
	}
}

// Close records the counts that are held. It may be called again when it
// failed. The recorder it passes on to is not closed.
func (a *Recorder) Close(ctx context.Context) error {
	a.mu.Lock()
	var due []flood
	for _, f := range a.floods {
		if f.held > 0 {
			due = append(due, *f)
		}
	}
	clear(a.floods)
	a.mu.Unlock()
	return a.tell(ctx, due)
}
