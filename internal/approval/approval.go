// Package approval keeps the questions of one session that wait for a person. It promises that a
// question is answered at most once, and that the answer is in the audit chain before anybody acts
// on it. Everything but a person's yes in time is a no (D-13, M-42). That is expiry, a broken
// chain, an ended call, the end of the session, and a restart, which knows no earlier question.
//
// Whoever answers is a person of the directory that the desk is given, within that
// person's rights and what may be decided at the face (M-46, M-47). All faces press the one
// [Desk.Press]; none of them decides.
//
// It does not decide what needs a question, and it does not record that one is asked,
// which whoever asks has done.
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
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// DefaultTTL is how long a question waits (D-13).
	DefaultTTL = 5 * time.Minute
	// MaxPending is how many questions of a session may wait at once.
	MaxPending = 64
	// MaxBytes is how much all of them may be together, in bytes of JSON, so that a list of them
	// can be read whole. No question keeps another one from being seen.
	MaxBytes = 16 << 20
	// maxFinished is how many answered questions are remembered, to tell a late answer what became
	// of its question. Their ids are not given again.
	maxFinished = 1024
	// recordLimit bounds the wait for the chain when the call itself has ended.
	recordLimit = 10 * time.Second
	// PressLimit is how long a press may take at most: another one's record, its own, and one
	// that it was refused.
	PressLimit = 3 * recordLimit
	// MaxStanding is the longest that a ruling may stand; it ends with its session.
	MaxStanding = 8 * time.Hour
	// MaxTimes is the most calls that a ruling may be counted for.
	MaxTimes = 100
	// maxBy is the longest name of who answered, in bytes.
	maxBy = 128
)

// The reasons for which a question ends without a person's answer, and an
// answer without a question. All of them deny.
var (
	ErrExpired  = error(expiredError{})
	ErrClosed   = error(closedError{})
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

// closedError is the end of a session to whoever asked.
type closedError struct{}

func (closedError) Error() string { return "session ended before anybody answered" }

// Is makes the end of a session the end of what waits in it.
func (closedError) Is(target error) bool { return target == context.Canceled }

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
	// Directory gives the persons who may answer, as they are now: whoever was removed
	// answers nothing any more. Without it nobody answers.
	Directory func() (person.Directory, error)
	Session   nacre.SessionID
	Group     nacre.Group
	// Store, when set, is where other machines of the installation see the questions and
	// answer them ([Board]).
	Store *database.Store
}

// Desk holds the pending questions of one session. It is a [nacre.Approver];
// all methods may be called concurrently.
type Desk struct {
	o Options

	mu       sync.Mutex
	closed   bool
	pending  map[string]*pending
	bytes    int // of the pending questions
	finished endings
	refused  int // presses that decided nothing, as far as they are recorded
	asking   sync.WaitGroup
	// unshare ends what shows the questions to other machines; nil until there is one.
	unshare func()
	changed chan struct{} // wakes it
}

// pending is one question. Whoever takes it out of the desk's map, under the
// desk's lock, has claimed it and must settle it.
type pending struct {
	q       nacre.Question
	bytes   int
	settled chan struct{} // closed when ruling and err stand
	ruling  nacre.Ruling
	err     error
	// pressing is held while an approval of several is taken.
	pressing sync.Mutex
	// approved are the persons who approved so far, where more than one has to.
	approved []person.Person
}

// New makes a desk without questions.
func New(o Options) *Desk {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	return &Desk{o: o, pending: map[string]*pending{}, changed: make(chan struct{}, 1)}
}

// TTL is how long a question waits.
func (d *Desk) TTL() time.Duration { return d.o.TTL }

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
	q.Asked = now
	if last := now.Add(d.o.TTL); q.Expires.IsZero() || q.Expires.After(last) {
		q.Expires = last
	}
	if deadline.Over(now, q.Expires) {
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
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAsked, err)
	}
	if d.bytes+len(text) > MaxBytes {
		return nil, ErrFull
	}
	p := &pending{q: q, bytes: len(text), settled: make(chan struct{})}
	d.pending[q.ID] = p
	d.bytes += p.bytes
	d.asking.Add(1)
	show(d)
	return p, nil
}

// show lets other machines see what changed at a desk. It is called with its mu held.
func show(d *Desk) {
	s := newSharing(d.o.Store, d)
	if s == nil {
		return
	}
	if d.unshare == nil {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.share(ctx, d.changed) }()
		d.unshare = func() { cancel(); <-ended }
	}
	select {
	case d.changed <- struct{}{}:
	default: // it looks anyway
	}
}

func (d *Desk) taken(id string) bool {
	return d.pending[id] != nil || d.finished.of(id) != ""
}

// await returns when somebody has claimed the question, itself at the latest
// when the question expires or the call ends.
func (d *Desk) await(ctx context.Context, p *pending) {
	expiry := time.NewTimer(deadline.Left(d.o.Now(), p.q.Expires))
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
	err := d.commit(ctx, d.record(p.q, outcome, decision{}))
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
	d.bytes -= p.bytes
	d.finished.add(id, what)
	show(d)
	return p
}

// late says what became of a question that is not open.
func (d *Desk) late(id string) error {
	if what := d.Ended(id); what != "" {
		return fmt.Errorf("%w: %s was %s", ErrLate, id, what)
	}
	return fmt.Errorf("%w: %.20q", ErrUnknown, id)
}

// Ended implements [Answerer].
func (d *Desk) Ended(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.finished.of(id)
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
		d.finished.add(id, "denied: "+ErrClosed.Error())
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	for _, p := range waiting {
		d.deny(ctx, p, ErrClosed)
	}
	d.asking.Wait()
	d.mu.Lock()
	unshare := d.unshare // nothing is opened any more
	d.mu.Unlock()
	if unshare != nil {
		unshare()
	}
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
func (d *Desk) record(q nacre.Question, outcome string, made decision) nacre.Record {
	r := made.ruling
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
		// Times is for how many calls, where they are counted.
		Times int `json:"times,omitempty"`
		// Person, Identity and Face say who decided and where, Shown the digest of what
		// the person was shown.
		Person   string          `json:"person,omitempty"`
		Identity person.Identity `json:"identity,omitempty"`
		Face     person.Face     `json:"face,omitempty"`
		Shown    string          `json:"shown,omitempty"`
		// Approved and Approvers are how many persons approved, of how many who have to.
		Approved  int `json:"approved,omitempty"`
		Approvers int `json:"approvers,omitempty"`
	}{
		q.ID, q.Capability, q.Digest, q.Expires.UTC(), r.By, seconds, scope, r.Times,
		made.who.Name, made.who.Identity, made.who.Identity.Face(), made.shown, made.approved, q.Approvers,
	})
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
