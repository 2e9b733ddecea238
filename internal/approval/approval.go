// Package approval keeps the questions of one session that wait for a person.
// It promises that a question is answered at most once, that the answer is in
// the audit chain before anybody acts on it, and that everything but a
// person's yes in time is a no: expiry, a broken chain, an ended call, the end
// of the session, and a restart, which knows no earlier question (D-13, M-42).
//
// It does not decide what needs a question, it does not record that one is
// asked, which whoever asks has done, and it does not know who may answer: a
// face lets nobody but the operator at it.
package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	// DefaultTTL is how long a question waits (D-13).
	DefaultTTL = 5 * time.Minute
	// MaxPending is how many questions of a session may wait at once.
	MaxPending = 64
	// maxFinished is how many answered questions are remembered, to tell a late
	// answer what became of its question; their ids are not given again.
	maxFinished = 1024
	// recordLimit bounds the wait for the chain when the call itself has ended.
	recordLimit = 10 * time.Second
	// MaxStanding is the longest that a ruling may stand; it ends with its session.
	MaxStanding = 8 * time.Hour
	// maxBy is the longest name of who answered, in bytes.
	maxBy = 128
)

// The reasons for which a question ends without a person's answer, and an
// answer without a question. All of them deny.
var (
	ErrExpired  = error(expiredError{})
	ErrClosed   = errors.New("session ended before anybody answered")
	ErrFull     = errors.New("too many questions wait already: answer or deny some first")
	ErrNotAsked = errors.New("question cannot be asked")
	ErrUnknown  = errors.New("no such question waits in this session")
	ErrLate     = errors.New("question is no longer open, so nothing was done")
	ErrAnswer   = errors.New("not an answer")
)

// expiredError is a deadline's end to whoever asked.
type expiredError struct{}

func (expiredError) Error() string { return "nobody answered in time" }

// Is makes the end of a question the end of a deadline.
func (expiredError) Is(target error) bool { return target == context.DeadlineExceeded }

// Options of a desk. Now and Recorder are required: without them every
// question is denied.
type Options struct {
	Now func() time.Time
	// TTL is how long a question waits; zero means DefaultTTL. A question's own
	// earlier Expires wins, a later one does not.
	TTL time.Duration
	// Notify, when set, is told of each question once it can be answered. It
	// must not block.
	Notify   func(nacre.Question)
	Recorder nacre.Recorder
	Session  nacre.SessionID
	Group    nacre.Group
}

// Desk holds the pending questions of one session. It is a [nacre.Approver];
// all methods may be called concurrently.
type Desk struct {
	o Options

	mu       sync.Mutex
	closed   bool
	pending  map[string]*pending
	finished []finished // the oldest first
	asking   sync.WaitGroup
}

// pending is one question. Whoever takes it out of the desk's map, under the
// desk's lock, has claimed it and must settle it.
type pending struct {
	q       nacre.Question
	settled chan struct{} // closed when ruling and err stand
	ruling  nacre.Ruling
	err     error
}

type finished struct{ id, what string }

// New makes a desk without questions.
func New(o Options) *Desk {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	return &Desk{o: o, pending: map[string]*pending{}}
}

// Ask implements [nacre.Approver]. It gives the question its id, its session
// and its expiry, and returns a person's ruling once that is recorded. Every
// error denies.
func (d *Desk) Ask(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
	if err := d.check(ctx, &q); err != nil {
		return nacre.Ruling{}, err
	}
	p, err := d.open(q)
	if err != nil {
		return nacre.Ruling{}, err
	}
	defer d.asking.Done()
	if d.o.Notify != nil {
		d.o.Notify(copyOf(p.q))
	}
	d.await(ctx, p)
	<-p.settled
	return p.ruling, p.err
}

func (d *Desk) check(ctx context.Context, q *nacre.Question) error {
	switch {
	case d.o.Now == nil || d.o.Recorder == nil:
		return fmt.Errorf("%w: the desk has no clock or no recorder", ErrNotAsked)
	case q.Digest == "" || q.Capability == "":
		return fmt.Errorf("%w: it names no capability or no digest to bind the answer to", ErrNotAsked)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	now := d.o.Now()
	if last := now.Add(d.o.TTL); q.Expires.IsZero() || q.Expires.After(last) {
		q.Expires = last
	}
	if !q.Expires.After(now) {
		return fmt.Errorf("%w: %w", ErrNotAsked, ErrExpired)
	}
	if d.o.Session != "" {
		q.Session = d.o.Session
	}
	if d.o.Group != "" {
		q.Group = d.o.Group
	}
	return nil
}

// open takes a place for the question, where it can be seen and answered.
func (d *Desk) open(q nacre.Question) (*pending, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	if len(d.pending) >= MaxPending {
		return nil, ErrFull
	}
	q.ID = newID(d.taken)
	q = copyOf(q)
	p := &pending{q: q, settled: make(chan struct{})}
	d.pending[q.ID] = p
	d.asking.Add(1)
	return p, nil
}

func (d *Desk) taken(id string) bool {
	return d.pending[id] != nil || slices.ContainsFunc(d.finished, func(f finished) bool { return f.id == id })
}

// await returns when somebody has claimed the question, itself at the latest
// when the question expires or the call ends.
func (d *Desk) await(ctx context.Context, p *pending) {
	expiry := time.NewTimer(p.q.Expires.Sub(d.o.Now()))
	defer expiry.Stop()
	var why error
	select {
	case <-p.settled:
		return
	case <-expiry.C:
		why = ErrExpired
	case <-ctx.Done():
		why = ctx.Err()
	}
	if d.claim(p.q.ID, "denied: "+why.Error()) == nil {
		return // somebody was faster, and settles it
	}
	d.deny(context.WithoutCancel(ctx), p, why)
}

// deny settles a claimed question without a person.
func (d *Desk) deny(ctx context.Context, p *pending, why error) {
	outcome := "ended"
	switch {
	case errors.Is(why, ErrExpired):
		outcome = "expired"
	case errors.Is(why, ErrClosed):
		outcome = "closed"
	}
	err := d.commit(ctx, d.record(p.q, outcome, nacre.Ruling{}))
	p.settle(nacre.Ruling{}, errors.Join(why, err))
}

func (p *pending) settle(r nacre.Ruling, err error) {
	p.ruling, p.err = r, err
	close(p.settled)
}

// claim takes a question out, and says to those who come later what became of
// it. It returns nil where somebody was faster.
func (d *Desk) claim(id, what string) *pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pending[id]
	if p == nil {
		return nil
	}
	delete(d.pending, id)
	d.finish(id, what)
	return p
}

// finish is called with mu held.
func (d *Desk) finish(id, what string) {
	if len(d.finished) == maxFinished {
		d.finished = slices.Delete(d.finished, 0, 1)
	}
	d.finished = append(d.finished, finished{id, what})
}

// Answer settles a question: it claims it, records the ruling, and only then
// lets the call go on. The ruling's digest is the desk's to give. A question
// that was answered, expired or never asked gets ErrLate or ErrUnknown, and
// nothing happens. Where the ruling cannot be recorded, the call is denied and
// the error returned.
func (d *Desk) Answer(id string, r nacre.Ruling) error {
	if err := checkRuling(r); err != nil {
		return err
	}
	id = strings.ToLower(strings.TrimSpace(id))
	word := map[nacre.Verdict]string{nacre.Allow: "approved", nacre.Deny: "denied"}[r.Verdict]
	if err := d.answerable(id); err != nil {
		return err
	}
	p := d.claim(id, word+" by "+Escape(r.By))
	if p == nil {
		return d.late(id)
	}
	if err := d.commit(context.Background(), d.record(p.q, word, r)); err != nil {
		err = fmt.Errorf("the answer could not be recorded, so the call is denied: %w", err)
		p.settle(nacre.Ruling{}, err)
		return err
	}
	r.Digest = p.q.Digest
	p.settle(r, nil)
	return nil
}

func checkRuling(r nacre.Ruling) error {
	switch {
	case r.Verdict != nacre.Allow && r.Verdict != nacre.Deny:
		return fmt.Errorf("%w: verdict %v: allow or deny", ErrAnswer, r.Verdict)
	case r.By == "" || len(r.By) > maxBy:
		return fmt.Errorf("%w: it does not say in 1–%d bytes who answers", ErrAnswer, maxBy)
	case r.Scope > nacre.ScopeTool || (r.Scope == nacre.ScopeOnce) != (r.For == 0):
		return fmt.Errorf("%w: what stands needs both a time and a scope, same or tool", ErrAnswer)
	case r.For < 0 || r.For > MaxStanding:
		return fmt.Errorf("%w: it cannot stand for %v: up to %v", ErrAnswer, r.For, MaxStanding)
	}
	return nil
}

// answerable refuses an answer to a question that does not wait, or whose time
// is over even where the timer that ends it is late, as after the machine slept.
func (d *Desk) answerable(id string) error {
	d.mu.Lock()
	p := d.pending[id]
	d.mu.Unlock()
	if p != nil && d.o.Now().Before(p.q.Expires) {
		return nil
	}
	if p != nil && d.claim(id, "denied: "+ErrExpired.Error()) != nil {
		d.deny(context.Background(), p, ErrExpired)
	}
	return d.late(id)
}

// late says what became of a question that is not open.
func (d *Desk) late(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range slices.Backward(d.finished) {
		if f.id == id {
			return fmt.Errorf("%w: %s was %s", ErrLate, id, f.what)
		}
	}
	return fmt.Errorf("%w: %.20q", ErrUnknown, id)
}

// List gives the questions that wait, the one that expires first in front.
func (d *Desk) List() []nacre.Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]nacre.Question, 0, len(d.pending))
	for _, p := range d.pending {
		list = append(list, copyOf(p.q))
	}
	slices.SortFunc(list, func(a, b nacre.Question) int {
		return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID))
	})
	return list
}

// Settled gives a channel that is closed when the question no longer waits,
// whoever answered it.
func (d *Desk) Settled(id string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pending[id]; p != nil {
		return p.settled
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Close denies every question that waits and refuses new ones. It returns
// when every Ask has its answer, so that the chain can be closed after it.
func (d *Desk) Close() error {
	d.mu.Lock()
	d.closed = true
	waiting := d.pending
	d.pending = map[string]*pending{}
	for id := range waiting {
		d.finish(id, "denied: "+ErrClosed.Error())
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	for _, p := range waiting {
		d.deny(ctx, p, ErrClosed)
	}
	d.asking.Wait()
	return nil
}

// commit records what became of a question; the call's own end does not break it off.
func (d *Desk) commit(ctx context.Context, r nacre.Record) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	return d.o.Recorder.Commit(ctx, r)
}

// record says how a question was settled. It holds names and digests, and no
// argument's value.
func (d *Desk) record(q nacre.Question, outcome string, r nacre.Ruling) nacre.Record {
	seconds, scope := int64(r.For/time.Second), ""
	if seconds > 0 {
		scope = r.Scope.String()
	}
	detail, err := json.Marshal(struct {
		ID         string             `json:"id"`
		Capability nacre.CapabilityID `json:"capability"`
		Digest     string             `json:"digest"`
		Expires    time.Time          `json:"expires"`
		By         string             `json:"by,omitempty"`
		// Seconds and Scope say for how long and for what a ruling stands.
		Seconds int64  `json:"seconds,omitempty"`
		Scope   string `json:"scope,omitempty"`
	}{q.ID, q.Capability, q.Digest, q.Expires.UTC(), r.By, seconds, scope})
	if err != nil {
		detail = nil // a year beyond 9999, which the chain refuses for itself
	}
	return nacre.Record{
		Kind: nacre.KindApprovalClaim, Time: d.o.Now(), Group: q.Group, Session: q.Session, Source: "approval",
		Outcome: outcome, Reason: q.Why, Detail: detail,
	}
}

func copyOf(q nacre.Question) nacre.Question {
	q.Arguments, q.Origins = slices.Clone(q.Arguments), slices.Clone(q.Origins)
	return q
}
