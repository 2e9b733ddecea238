package token

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	// MaxAccounts is how many tokens with uses are kept; one more is refused.
	MaxAccounts = 1 << 16
	// maxLinks is how many bounds are kept that holders added to one token.
	maxLinks = 64
)

// Ledger counts uses. All that derives from one token is charged to that one, and to every bound on
// the way. A token that was never opened here has no uses, so that a restart gives none back. Its
// clock only goes forward. The zero Ledger is ready. Safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	latest   time.Time
	accounts map[string]*account
}

type account struct {
	// left is what the token itself has, where it is bounded.
	left    int
	bounded bool
	expires time.Time
	links   map[[sha256.Size]byte]int
}

// Open lets t, which was just minted, and all that derives from it be spent. A
// token without bounds need not be opened, but the bounds that its holders add
// are kept for an opened one only. Open refuses an id that is open already.
func (l *Ledger) Open(t nacre.Token, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.clock(now)
	if now.IsZero() || !now.Before(t.Expires) {
		return ErrExpired
	}
	if _, known := l.accounts[t.ID]; known {
		return fmt.Errorf("%w: it was opened before", ErrSpent)
	}
	if len(l.accounts) >= MaxAccounts {
		l.sweep(now)
	}
	if len(l.accounts) >= MaxAccounts {
		return fmt.Errorf("%w: %d tokens with uses are out: wait until some expire", ErrSpent, MaxAccounts)
	}
	if l.accounts == nil {
		l.accounts = make(map[string]*account)
	}
	a := &account{expires: t.Expires}
	if t.Uses != nil {
		a.left, a.bounded = *t.Uses, true
	}
	l.accounts[t.ID] = a
	return nil
}

// Spend takes one use of what Verify returned, from the root and from every
// bound, or from none of them and returns ErrSpent.
func (l *Ledger) Spend(e Effective, now time.Time) error { return l.take(e, now, true) }

// Check returns what Spend would, and takes nothing: for a dry run (K-18).
func (l *Ledger) Check(e Effective, now time.Time) error { return l.take(e, now, false) }

func (l *Ledger) take(e Effective, now time.Time, spend bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.clock(now)
	if e.RootID == "" || now.IsZero() || !now.Before(e.Expires) {
		return ErrExpired
	}
	if e.root == nil && len(e.bounds) == 0 {
		return nil // nothing to count
	}
	a := l.accounts[e.RootID]
	if a == nil {
		return ErrSpent
	}
	if err := a.check(e); err != nil || !spend {
		return err
	}
	if a.spend(e); a.bounded && a.left < 1 {
		delete(l.accounts, e.RootID) // as good as never opened
	}
	return nil
}

func (a *account) check(e Effective) error {
	if a.bounded && a.left < 1 {
		return ErrSpent
	}
	fresh := 0
	for _, b := range e.bounds {
		used, known := a.links[b.link]
		if used >= b.uses {
			return ErrSpent
		}
		if !known {
			fresh++
		}
	}
	if len(a.links)+fresh > maxLinks {
		return fmt.Errorf("%w: more than %d bounds were added to it", ErrSpent, maxLinks)
	}
	return nil
}

func (a *account) spend(e Effective) {
	if a.bounded {
		a.left--
	}
	if a.links == nil && len(e.bounds) > 0 {
		a.links = make(map[[sha256.Size]byte]int)
	}
	for _, b := range e.bounds {
		a.links[b.link]++
	}
}

// clock returns the latest instant there was.
func (l *Ledger) clock(now time.Time) time.Time {
	if now.After(l.latest) {
		l.latest = now
	}
	return l.latest
}

// sweep forgets what has expired, which is refused before it is counted.
func (l *Ledger) sweep(now time.Time) {
	for id, a := range l.accounts {
		if !now.Before(a.expires) {
			delete(l.accounts, id)
		}
	}
}
