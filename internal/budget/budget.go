// Package budget promises that money is set aside before it is spent: a model
// call reserves the most it can cost, settles what it did cost, and what was
// reserved and never settled stays charged (M-04). It does not count tokens, call
// models or lock: the caller serialises, and sums are whole micro-dollars.
package budget

import (
	"fmt"
	"math"
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
}

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("budget exhausted: the call may cost up to %s, %s of %s is left",
		Dollars(e.Need), Dollars(e.Left), Dollars(e.Limit))
}

// NewLedger makes a budget of limit micro-dollars; zero or less allows nothing.
func NewLedger(limit int64) *Ledger {
	return &Ledger{limit: max(limit, 0), open: map[Reservation]int64{}}
}

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

// Charge ends a reservation at its full amount: for a call whose cost is
// unknown, such as a cut stream. It returns the amount charged.
func (l *Ledger) Charge(r Reservation) int64 {
	amount := l.open[r]
	l.Settle(r, amount)
	return amount
}

// Release ends a reservation at no cost: for a call that was never made or
// was refused by the other side.
func (l *Ledger) Release(r Reservation) { l.Settle(r, 0) }

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
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
