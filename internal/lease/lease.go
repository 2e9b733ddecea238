// Package lease promises that a credential is handed out to one session, for a
// time, from where the operator says it is, and that a durable ledger knows of
// every lease that was not given back (M-31, M-32 for static secrets). What
// cannot be read, is empty or has expired is not handed out.
//
// It does not mint credentials, and takes none back from whoever issued them:
// a static secret ends when its issuer says so.
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
)

// Kind is the audit record of a lease that was acquired, released or found orphaned.
const Kind nacre.Kind = "lease"

// DefaultTTL is how long a value is used before it is read anew.
const DefaultTTL = 15 * time.Minute

// maxKept is how many earlier values of a lease are remembered, so that answers
// are searched for them too.
const maxKept = 4

// ErrEnded says that a lease was given back or has expired.
var ErrEnded = errors.New("the lease has ended")

// Spec is what is leased: a name, and where the value is.
type Spec struct {
	Name   string
	Source Source
	// TTL is how long a value is used before it is read anew; zero means DefaultTTL.
	TTL time.Duration
	// Expires, where it is set, is when the lease ends, whatever the source says.
	Expires time.Time
}

// Options of a broker. All are required.
type Options struct {
	// Path is the ledger's file; its folder exists.
	Path   string
	Now    func() time.Time
	Getenv func(string) string
	// Alive reports whether a session is still open: leases of others are orphans.
	Alive func(nacre.SessionID) bool
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
// their secrets were in use when something crashed.
func (b *Broker) Sweep() ([]Orphan, error) {
	orphans, err := b.ledger.sweep(b.options.Alive, b.options.Now().UTC())
	if err != nil {
		return nil, fmt.Errorf("the ledger of leases: %w", err)
	}
	return orphans, nil
}

// Orphan is a lease that its session did not give back.
type Orphan struct {
	Session    nacre.SessionID `json:"session"`
	Credential string          `json:"credential"`
	Since      time.Time       `json:"since"`
}

// Lease is one session's hold on a credential. It is safe for concurrent use.
type Lease struct {
	broker *Broker
	spec   Spec
	entry  entry

	mu    sync.Mutex
	kept  []nacre.Secret // the newest first
	read  time.Time
	ended bool
}

// Name is the credential's.
func (l *Lease) Name() string { return l.spec.Name }

// Values gives the value to use, and after it earlier ones of this lease,
// which a host may still know. It reads the source anew when the value is older
// than its time, and fails rather than give one that is too old.
func (l *Lease) Values(ctx context.Context) ([]nacre.Secret, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.broker.options.Now()
	switch {
	case l.ended:
		return nil, fmt.Errorf("credential %s: %w", l.spec.Name, ErrEnded)
	case !l.spec.Expires.IsZero() && !now.Before(l.spec.Expires):
		return nil, fmt.Errorf("credential %s: %w: it expired at %s; put a new value there and set expires", l.spec.Name, ErrEnded, l.spec.Expires.UTC().Format(time.RFC3339))
	case len(l.kept) > 0 && now.Sub(l.read) < l.spec.TTL:
		return l.kept, nil
	}
	value, err := l.spec.Source.Read(ctx, l.broker.options.Getenv)
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", l.spec.Name, err)
	}
	l.read = now
	if len(l.kept) == 0 || l.kept[0] != value {
		earlier := l.kept[:min(len(l.kept), maxKept)]
		l.kept = append([]nacre.Secret{value}, earlier...)
	}
	return l.kept, nil
}

// Release gives the lease back; a second time it does nothing.
func (l *Lease) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	l.ended, l.kept = true, nil
	return l.broker.write(l.entry, eventReleased)
}

func newID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(raw[:])
}
