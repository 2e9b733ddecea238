package firewall

import (
	"errors"
	"sync"

	"github.com/nacre-dev/nacre"
)

// DefaultBudget is how much a session may be shown in all, in tokens (K-16).
const DefaultBudget = 100_000

// charsPerToken is what a token is taken for. The budget is kept in characters,
// so that many small answers cost what one large one does.
const charsPerToken = 4

// ErrExhausted is returned where nothing more may be shown: its reason code is
// nacre.ReasonBudgetExhausted.
var ErrExhausted = errors.New("the session's output budget is used up")

// Budget is what a session may still be shown, in all of its results, pages
// and errors. The zero value is exhausted. It is safe for concurrent use.
type Budget struct {
	mu sync.Mutex
	// total and left are in characters; what is reserved is not left.
	total, left int
}

// NewBudget is a budget of so many tokens of four characters.
func NewBudget(tokens int) *Budget {
	chars := max(tokens, 0) * charsPerToken
	return &Budget{total: chars, left: chars}
}

// Remaining is what is left, in whole tokens, reservations taken off.
func (b *Budget) Remaining() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left / charsPerToken
}

// Reservation is a part of a budget that nobody else can use until it is settled.
type Reservation struct {
	// Mode is what the budget still allows of the mode that was asked for, and
	// Chars the most characters that may be shown.
	Mode  nacre.Mode
	Chars int

	budget  *Budget
	settled bool
}

// Reserve takes chars off the budget, or what is left where that is less, and
// at least what the smallest frame takes. It fails with ErrExhausted where
// there is not so much: then nothing may be carried out.
func (b *Budget) Reserve(want nacre.Mode, chars int) (*Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < MinChars {
		return nil, ErrExhausted
	}
	r := &Reservation{Mode: Suggest(want, b.left, b.total), Chars: min(max(chars, MinChars), b.left), budget: b}
	b.left -= r.Chars
	return r, nil
}

// Settle charges the characters that were shown, and gives back the rest. Only
// the first call counts; one that was not settled stays charged in full.
func (r *Reservation) Settle(shown int) {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	if r.settled {
		return
	}
	r.settled = true
	r.budget.left += r.Chars - min(max(shown, 0), r.Chars)
}

// Suggest is the mode that what is left of a total still allows. It is raw above half of the total,
// a table above a fifth, a summary from a twentieth, and then the handle alone.
func Suggest(want nacre.Mode, left, total int) nacre.Mode {
	allowed := nacre.ModeHandleOnly
	switch share := float64(max(left, 0)) / float64(max(total, 1)); {
	case share > 0.5:
		allowed = nacre.ModeRaw
	case share > 0.2:
		allowed = nacre.ModeTable
	case share >= 0.05:
		allowed = nacre.ModeSummary
	}
	if shows(want) > shows(allowed) {
		return allowed
	}
	return want
}

// shows ranks modes by how much they show; what is no mode shows least.
func shows(m nacre.Mode) int {
	switch m {
	case nacre.ModeRaw:
		return 3
	case nacre.ModeTable:
		return 2
	case nacre.ModeSummary:
		return 1
	case nacre.ModeHandleOnly:
	}
	return 0
}
