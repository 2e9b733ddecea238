package audit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// The bounds of an [Aggregator].
const (
	// aggregateWindow is the time over which equal records are one flood.
	aggregateWindow = time.Minute
	// aggregateSweep is how often it is looked for windows that are over.
	aggregateSweep = time.Second
	// aggregateEach is how many equal records of a window get a line of their own.
	aggregateEach = 20
	// aggregateKinds is how many different records it tells apart at once; what
	// goes beyond shares one count a kind.
	aggregateKinds = 256
)

// Aggregator is a recorder that keeps floods short (D-16): of equal
// rejections within a minute, the first 20 are recorded one by one and the
// others as one record with their count, in detail.repeated, and the times of
// the first and the last. Everything but rejections and blocked connections
// passes through as it is. Equal means: all members but time, correlation and detail.
type Aggregator struct {
	next nacre.Recorder
	now  func() time.Time

	mu     sync.Mutex
	floods map[floodKey]*flood
	swept  time.Time // when it was last looked for windows that are over
}

// floodKey is what equal records have in common.
type floodKey struct {
	kind                           nacre.Kind
	group                          nacre.Group
	session                        nacre.SessionID
	source, topic, outcome, reason string
	stage                          int
}

// flood is what a window saw of equal records.
type flood struct {
	key         floodKey
	since       time.Time // of the window
	seen        int
	held        int
	first, last time.Time // of those held
}

// NewAggregator passes records on to next. Close it before next.
func NewAggregator(next nacre.Recorder, now func() time.Time) (*Aggregator, error) {
	if next == nil || now == nil {
		return nil, errors.New("aggregator: give a recorder and a clock")
	}
	return &Aggregator{next: next, now: now, floods: map[floodKey]*flood{}}, nil
}

// Append implements [nacre.Recorder].
func (a *Aggregator) Append(ctx context.Context, r nacre.Record) error {
	return a.pass(ctx, r, a.next.Append)
}

// Commit implements [nacre.Recorder]. A record that is held is durable with the
// count that follows; nobody acts on a rejection.
func (a *Aggregator) Commit(ctx context.Context, r nacre.Record) error {
	return a.pass(ctx, r, a.next.Commit)
}

func (a *Aggregator) pass(ctx context.Context, r nacre.Record, on func(context.Context, nacre.Record) error) error {
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
func (a *Aggregator) count(r nacre.Record, now time.Time) (own bool, due []flood) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due = a.ended(now)
	if !mayFlood(r) {
		return true, due
	}
	f := a.floodOf(r, now)
	if f.seen++; f.seen <= aggregateEach {
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
func (a *Aggregator) floodOf(r nacre.Record, now time.Time) *flood {
	key := floodKey{r.Kind, r.Group, r.Session, r.Source, r.Topic, r.Outcome, r.Reason, r.Stage}
	f, ok := a.floods[key]
	if !ok && len(a.floods) >= aggregateKinds {
		key = floodKey{kind: r.Kind, group: r.Group, session: r.Session, outcome: r.Outcome, reason: "many different"}
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
func (a *Aggregator) ended(now time.Time) (due []flood) {
	if since := now.Sub(a.swept); since >= 0 && since < aggregateSweep {
		return nil
	}
	a.swept = now
	for key, f := range a.floods {
		if age := now.Sub(f.since); age >= 0 && age < aggregateWindow {
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
func (a *Aggregator) tell(ctx context.Context, due []flood) error {
	slices.SortFunc(due, func(x, y flood) int { return x.first.Compare(y.first) })
	for i, f := range due {
		if err := a.next.Append(ctx, f.record()); err != nil {
			a.putBack(due[i:])
			return err
		}
	}
	return nil
}

// putBack keeps what could not be told for the next attempt.
func (a *Aggregator) putBack(floods []flood) {
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

func (f flood) record() nacre.Record {
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
func (a *Aggregator) Close(ctx context.Context) error {
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
