// Package lease promises that a credential is handed out to one session, for a time, from where the operator
// says it is. A durable ledger knows of every lease that was not given back (M-31, M-32 for static secrets).
// What cannot be read, is empty or has expired is not handed out.
//
// What an [Issuer] mints is taken back when the lease ends, is renewed or its session is gone. The ledger says
// that a credential is about to be minted before it is. What it is revoked with is on disk, for its owner alone,
// before anybody is given it. What a provider would not take back stays in the ledger until it is taken back or
// has ended by itself. A static secret ends when its issuer says so.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
)

// Kind is the audit record of a lease that was acquired, released or found orphaned.
const Kind nacre.Kind = "lease"

// DefaultTTL is how long a value is used before it is read anew.
const DefaultTTL = 15 * time.Minute

// MaxTTL is the longest time that a value is used before it is read anew.
const MaxTTL = time.Hour

// ParseTTL reads how long a value is used; an empty text means DefaultTTL.
func ParseTTL(text string) (time.Duration, error) {
	if text == "" {
		return DefaultTTL, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > MaxTTL {
		return 0, errors.New("ttl is a time from 1s to 1h, such as \"15m\"")
	}
	return d, nil
}

// maxKept is how many earlier values of a lease are remembered, so that answers
// are searched for them too.
const maxKept = 4

// ErrEnded says that a lease was given back or has expired.
var ErrEnded = errors.New("the lease has ended")

// Spec is what is leased: a name, and where the value is.
type Spec struct {
	Name   string
	Source Source
	// Issuer, where there is one, mints the value; Source is then not read.
	Issuer Issuer
	// TTL is how long a value is used before it is read anew; zero means DefaultTTL.
	TTL time.Duration
	// Expires, where it is set, is when the lease ends, whatever the source says.
	Expires time.Time
	// Budget, where there is one, is what a person granted of what is minted.
	Budget *Budget
}

// Options of a broker. All are required.
type Options struct {
	// Path is the ledger's file; its folder exists.
	Path   string
	Now    func() time.Time
	Getenv func(string) string
	// Alive reports whether a session is still open: leases of others are orphans.
	Alive func(nacre.SessionID) bool
	// Issuer gives who minted a credential of that name. It may be nil where none is minted.
	Issuer func(credential string) (Issuer, error)
	// Elsewhere is told of what is minted; nil where no other machine is.
	Elsewhere Elsewhere
}

// Elsewhere are other machines, which take back what this one cannot any more.
type Elsewhere interface {
	// Minting says that a credential is about to be minted, which is good for no longer. Where it fails none is.
	Minting(ctx context.Context, held Held, atMost time.Duration) error
	// Minted says what it is revoked with. Where it fails it is taken back, and nobody is given it.
	Minted(ctx context.Context, held Held, handle nacre.Secret, atMost time.Duration) error
	// Ended says that it was taken back, or never was.
	Ended(ctx context.Context, id string) error
}

// Held is a lease that was not given back.
type Held struct {
	ID         string          `json:"-"`
	Session    nacre.SessionID `json:"session"`
	Group      nacre.Group     `json:"group"`
	Credential string          `json:"credential"`
	Since      time.Time       `json:"since"`
	// Until is when what was minted has ended by itself at the latest; zero for what nobody minted.
	Until time.Time `json:"until,omitzero"`
	// Lost says that its session is gone.
	Lost bool `json:"lost,omitempty"`
}

// Broker hands out leases. It is safe for concurrent use, also by processes.
type Broker struct {
	options Options
	ledger  ledger
}

// New makes a broker. It opens nothing.
func New(o Options) *Broker { return &Broker{options: o, ledger: ledger{path: o.Path}} }

// Acquire reads the value, and writes to the ledger that the session has it.
// It fails where there is no value, and says what to do.
func (b *Broker) Acquire(ctx context.Context, session nacre.SessionID, group nacre.Group, spec Spec) (*Lease, error) {
	if spec.TTL <= 0 {
		spec.TTL = DefaultTTL
	}
	l := &Lease{broker: b, spec: spec, entry: entry{Lease: newID(), Session: session, Group: group, Credential: spec.Name}}
	if _, err := l.Values(ctx); err != nil {
		return nil, err
	}
	if spec.Issuer != nil {
		return l, nil // each of what it mints is in the ledger
	}
	return l, b.write(l.entry, eventAcquired)
}

// write puts one event in the ledger, durably.
func (b *Broker) write(e entry, event string) error {
	e.Event, e.Time = event, b.options.Now().UTC()
	if err := b.ledger.append(e); err != nil {
		return fmt.Errorf("the ledger of leases: %w", err)
	}
	return nil
}

// Sweep ends the leases of sessions that are gone, and says which they were:
// their secrets were in use when something crashed. What was minted is revoked; what could
// not be stays in the ledger, for the next sweep, until it has ended by itself. A provider that does
// not answer is waited for once a sweep, however much is left of it.
func (b *Broker) Sweep(ctx context.Context) ([]Orphan, error) {
	orphans, minted, err := b.ledger.sweep(b.options.Alive, b.options.Now().UTC())
	if err != nil {
		return nil, fmt.Errorf("the ledger of leases: %w", err)
	}
	silent := map[string]error{}
	for _, e := range minted {
		orphan := Orphan{Session: e.Session, Credential: e.Credential, Since: e.Time}
		if err := b.takeBack(ctx, e, &orphan, silent); err != nil {
			return orphans, err
		}
		orphans = append(orphans, orphan)
	}
	return orphans, nil
}

// Held are the leases that were not given back on this machine, the oldest first.
func (b *Broker) Held() (held []Held, err error) {
	entries, err := b.ledger.held()
	if err != nil {
		return nil, fmt.Errorf("the ledger of leases: %w", err)
	}
	for _, e := range entries {
		h := e.held()
		h.Lost = !b.options.Alive(e.Session)
		held = append(held, h)
	}
	return held, nil
}

// TakeBack revokes what a session of another machine left.
func (b *Broker) TakeBack(ctx context.Context, credential string, handle nacre.Secret) error {
	err := b.revoke(ctx, credential, handle)
	if errors.Is(err, ErrIrrevocable) {
		return nil
	}
	return err
}

// Orphan is a lease that its session did not give back.
type Orphan struct {
	Session    nacre.SessionID `json:"session"`
	Credential string          `json:"credential"`
	Since      time.Time       `json:"since"`
	// Left says why it was not revoked, and until when it is good; empty where it was, and
	// for what nobody minted.
	Left string `json:"left,omitempty"`
	// Refused says that its provider answered and will not: trying again is of no use. Where
	// something is left and it was not refused, the next sweep may have more luck.
	Refused bool `json:"refused,omitempty"`
}

// Lease is one session's hold on a credential. It is safe for concurrent use.
type Lease struct {
	broker *Broker
	spec   Spec
	entry  entry

	mu    sync.Mutex
	kept  []Material // the newest first
	mint  *mint      // the one that is used, where the value is minted
	over  []mint     // those that are not used any more, and were not taken back yet
	made  int        // how many leases there were: the first one, and its renewals
	ends  time.Time  // when the last of them is over; the zero time without a budget
	again time.Time  // when a renewal that failed is tried again
	read  time.Time
	ended bool
}

// Name is the credential's.
func (l *Lease) Name() string { return l.spec.Name }

// Material is what a lease gives: a value, and what belongs to it where it is an AWS key.
type Material struct {
	Value nacre.Secret
	// AccessKey and SessionToken are of a minted AWS key, whose secret key is the value.
	AccessKey, SessionToken nacre.Secret
}

// Values gives those of Materials.
func (l *Lease) Values(ctx context.Context) ([]nacre.Secret, error) {
	held, err := l.Materials(ctx)
	var values []nacre.Secret
	for _, m := range held {
		values = append(values, m.Value)
	}
	return values, err
}

// Materials gives the value to use, and after it earlier ones of this lease,
// which a host may still know. It reads the source anew when the value is older
// than its time, and fails rather than give one that is too old. What is minted is renewed
// before its time is over; [ErrExhausted] says that the budget has nothing left to renew it.
func (l *Lease) Materials(ctx context.Context) ([]Material, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.broker.options.Now()
	switch {
	case l.ended:
		return nil, fmt.Errorf("credential %s: %w", l.spec.Name, ErrEnded)
	case !l.spec.Expires.IsZero() && !now.Before(l.spec.Expires):
		return nil, fmt.Errorf("credential %s: %w: it expired at %s; put a new value there and set expires", l.spec.Name, ErrEnded, l.spec.Expires.UTC().Format(time.RFC3339))
	case len(l.kept) > 0 && (deadline.Left(now, l.stale()) > 0 || l.lasts(now)):
		return l.kept, nil
	}
	next, err := l.next(ctx)
	if err != nil && l.good(now) {
		l.again = now.Add(renewEvery)
		return l.kept, nil // which is not over yet
	}
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", l.spec.Name, err)
	}
	l.read = now
	if len(l.kept) == 0 || l.kept[0] != next {
		earlier := l.kept[:min(len(l.kept), maxKept)]
		l.kept = append([]Material{next}, earlier...)
	}
	return l.kept, nil
}

// Made is how often the credential was leased: once, and as often as it was renewed.
func (l *Lease) Made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// Until is when what the lease gave may not be used any more, whoever asks for more; the zero time
// where that is only when it is given back.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, budget := l.spec.Expires, l.spec.Budget
	if budget == nil {
		return until
	}
	end := budget.Until
	if l.made > budget.Renewals {
		end = l.ends // which nothing follows
	}
	if until.IsZero() || end.Before(until) {
		until = end
	}
	return until
}

// Release gives the lease back, although ctx may be over. A second time it takes back only what could not be
// taken back the first time.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spec.Issuer == nil && !l.ended {
		l.ended, l.kept = true, nil
		return l.broker.write(l.entry, eventReleased)
	}
	l.ended, l.kept = true, nil
	if l.mint != nil {
		l.over = append(l.over, *l.mint)
		l.mint = nil
	}
	return l.giveBack(ctx)
}

func newID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(raw[:])
}
