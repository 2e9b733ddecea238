// Package budget promises that money is set aside before it is spent (M-04). A model call reserves
// the most it can cost and settles what it did cost. What was reserved and never settled stays
// charged. It does not count tokens, call models or lock: the caller serialises, and sums are whole
// micro-dollars.
package budget

import (
	"fmt"
	"math"
	"time"
)

// Ledger is one budget: what may be spent, was spent, and is set aside.
// The zero value allows nothing. It is not safe for concurrent use.
type Ledger struct {
	limit, spent, reserved int64
	open                   map[Reservation]int64
	next                   Reservation
}

// Reservation names money set aside. The zero value names none.
type Reservation uint64

// ExhaustedError refuses a reservation that the budget cannot cover, in micro-dollars.
type ExhaustedError struct {
	Need, Left, Limit int64
	// Which names the budget and Refill says when there is a new one; both are
	// empty for a session's own, which nothing refills.
	Which  string
	Held   int64
	Refill time.Time
}

func (e *ExhaustedError) Error() string {
	said := fmt.Sprintf("budget exhausted: the call may cost up to %s, %s of %s is left", Dollars(e.Need), Dollars(e.Left), Dollars(e.Limit))
	if e.Which == "" {
		return said
	}
	said += " of " + e.Which
	if e.Held > 0 {
		said += fmt.Sprintf(" (%s is set aside for calls that run or were cut off)", Dollars(e.Held))
	}
	return said + "; it refills at " + e.Refill.Format("2006-01-02 15:04 MST")
}

// NewLedger makes a budget of limit micro-dollars; zero or less allows nothing.
func NewLedger(limit int64) *Ledger {
	return &Ledger{limit: max(limit, 0), open: map[Reservation]int64{}}
}

// Narrow lowers the limit to what is named, of all that was and will be spent; it raises none.
func (l *Ledger) Narrow(limit int64) { l.limit = min(l.limit, max(limit, 0)) }

// Left is what can still be reserved, in micro-dollars.
func (l *Ledger) Left() int64 { return max(l.limit-l.spent-l.reserved, 0) }

// Spent is what was settled, in micro-dollars.
func (l *Ledger) Spent() int64 { return l.spent }

// Reserved is what is set aside, in micro-dollars.
func (l *Ledger) Reserved() int64 { return l.reserved }

// Reserve sets amount micro-dollars aside, or refuses with an *ExhaustedError.
// An exhausted budget refuses even what is free.
func (l *Ledger) Reserve(amount int64) (Reservation, error) {
	left := l.Left()
	if amount < 0 || amount > left || left == 0 {
		return 0, &ExhaustedError{Need: amount, Left: left, Limit: l.limit}
	}
	l.next++
	l.open[l.next] = amount
	l.reserved += amount
	return l.next, nil
}

// Settle ends a reservation and charges what the call cost, which may be more
// than was reserved: then less is left for the next. It reports whether the
// reservation was open; one that is not is not charged again.
func (l *Ledger) Settle(r Reservation, cost int64) bool {
	amount, ok := l.open[r]
	if !ok {
		return false
	}
	delete(l.open, r)
	l.reserved -= amount
	l.spent = add(l.spent, max(cost, 0))
	return true
}

func add(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Dollars writes micro-dollars for a person, such as "$0.0125".
func Dollars(micro int64) string {
	if micro%10_000 == 0 {
		return fmt.Sprintf("$%d.%02d", micro/1_000_000, micro%1_000_000/10_000)
	}
	return fmt.Sprintf("$%d.%06d", micro/1_000_000, micro%1_000_000)
}
