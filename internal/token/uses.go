package token

import (
	"sync"
	"time"
)

// MaxOpen is how many tokens with uses left are kept; one more is refused.
const MaxOpen = 1 << 16

// Uses counts what is left of each token that is out. A token that was never
// opened here has no uses. The zero value is ready; safe for concurrent use.
type Uses struct {
	mu   sync.Mutex
	open map[string]remaining
}

type remaining struct {
	uses    int
	expires time.Time
}

// Open lets t be spent t.Uses times. It refuses an id that is open already.
func (u *Uses) Open(t Token, now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = make(map[string]remaining)
	}
	if _, known := u.open[t.ID]; known {
		return ErrSpent
	}
	if len(u.open) >= MaxOpen {
		u.sweep(now)
	}
	if len(u.open) >= MaxOpen {
		return ErrSpent
	}
	u.open[t.ID] = remaining{uses: t.Uses, expires: t.Expires}
	return nil
}

// Spend takes one use of a token that Verify accepted, or returns ErrSpent.
func (u *Uses) Spend(id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	left, ok := u.open[id]
	if !ok {
		return ErrSpent
	}
	left.uses--
	if left.uses < 1 {
		delete(u.open, id)
		return nil
	}
	u.open[id] = left
	return nil
}

// sweep forgets what has expired: Verify refuses it anyhow.
func (u *Uses) sweep(now time.Time) {
	for id, left := range u.open {
		if !now.Before(left.expires) {
			delete(u.open, id)
		}
	}
}
