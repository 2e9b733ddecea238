package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/deadline"
)

const (
	// shortestTerm is the shortest time that a credential is minted for: less is left of a
	// budget that is as good as over.
	shortestTerm = time.Minute
	// maxHours and maxRenewals bound what a person is asked for.
	maxHours    = 24
	maxRenewals = 100
)

// ErrExhausted says that a budget has no time or no renewal left: a person is asked again.
var ErrExhausted = errors.New("the budget that a person granted is used up")

// Budgeting is what a person is asked to grant before a credential is minted (M-30). The
// zero value asks nobody: the operator's config is what grants the credential.
type Budgeting struct {
	// Hours is for how long the credential may be minted, from the answer on.
	Hours int `toml:"hours"`
	// Renewals is how often it may be replaced by another one in that time.
	Renewals int `toml:"renewals"`
}

// Named reports whether a person is asked.
func (b Budgeting) Named() bool { return b != Budgeting{} }

func (b Budgeting) check() error {
	if b.Named() && (b.Hours < 1 || b.Hours > maxHours || b.Renewals < 0 || b.Renewals > maxRenewals) {
		return fmt.Errorf("budget: hours is 1 to %d, renewals 0 to %d", maxHours, maxRenewals)
	}
	return nil
}

// String says what a person is asked for.
func (b Budgeting) String() string {
	return fmt.Sprintf("%dh and %d renewals", b.Hours, b.Renewals)
}

// Granted is the budget of an answer that was given now. An answer for a shorter time, or
// for a number of leases, grants no more than that.
func (b Budgeting) Granted(now time.Time, span time.Duration, leases int) Budget {
	granted := Budget{Until: now.Add(time.Duration(b.Hours) * time.Hour), Renewals: b.Renewals}
	if span > 0 && now.Add(span).Before(granted.Until) {
		granted.Until = now.Add(span)
	}
	if leases > 0 {
		granted.Renewals = min(granted.Renewals, leases-1)
	}
	return granted
}

// Budget is what a person granted of one credential. The zero value grants nothing.
type Budget struct {
	// Until is when the last lease ends.
	Until time.Time `json:"until"`
	// Renewals is how often the first lease, which counts against the time alone, may be
	// followed by another one.
	Renewals int `json:"renewals"`
}

// term is how long the next lease lasts: the ttl, clipped to what remains. made is how many
// there were.
func (b Budget) term(now time.Time, ttl time.Duration, made int) (time.Duration, error) {
	rest := deadline.Left(now, b.Until)
	if rest < shortestTerm || made > b.Renewals {
		return 0, ErrExhausted
	}
	return min(ttl, rest), nil
}
