package person

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The limits of pairing (M-46).
const (
	// PairingTime is for how long identities may be paired after a person on the host said
	// so, and at most how long a code is good.
	PairingTime = 10 * time.Minute
	// MaxPending is how many identities wait for that at once.
	MaxPending = 3
	// MaxWrong is how many wrong codes end it.
	MaxWrong = 5
	// CodeLength is how many characters a code has.
	CodeLength = 8
)

// CodeLetters are those of a code: none of them is taken for another one.
const CodeLetters = "ABCDEFGHJKMNPQRSTVWXYZ23456789"

// The reasons for which nothing is paired.
var (
	// ErrNoPairing is for whoever asks to be paired while nobody on the host wants that. Such
	// a stranger is told nothing.
	ErrNoPairing = errors.New("nobody is being paired now")
	// ErrCode is for a code that no identity waits with.
	ErrCode = errors.New("no identity waits with this code")
)

// Window is the time in which identities may be paired with one operator, and who waits
// for it. Its zero value pairs nobody.
type Window struct {
	Operator string    `json:"operator"`
	Until    time.Time `json:"until"`
	Pending  []Pending `json:"pending,omitempty"`
	Wrong    int       `json:"wrong,omitempty"`
}

// Pending is an identity that waits, with the code that it was shown.
type Pending struct {
	Identity Identity  `json:"identity"`
	Code     string    `json:"code"`
	Asked    time.Time `json:"asked"`
}

// OpenWindow lets identities be paired with an operator from now on. Those that waited in
// an earlier window wait no longer.
func OpenWindow(operator string, now time.Time) Window {
	return Window{Operator: operator, Until: now.Add(PairingTime)}
}

// Open tells whether identities may be paired now. A clock that went back closes it.
func (w Window) Open(now time.Time) bool {
	return w.Operator != "" && now.Before(w.Until) && !now.Before(w.Until.Add(-PairingTime)) && w.Wrong < MaxWrong
}

// Ask lets an identity of a service wait with a code, which is drawn by whoever calls. One
// that waits already gets its code again.
func (w Window) Ask(id Identity, code string, now time.Time) (Window, string, error) {
	if _, err := ParseIdentity(string(id)); err != nil {
		return w, "", err
	}
	if !w.Open(now) || id.Face().Host() {
		return w, "", ErrNoPairing
	}
	if len(code) != CodeLength || !only(code, CodeLetters) {
		return w, "", fmt.Errorf("%w: a code has %d characters", ErrCode, CodeLength)
	}
	for _, p := range w.Pending {
		if p.Identity == id {
			return w, p.Code, nil
		}
		if p.Code == code {
			return w, "", fmt.Errorf("%w: another identity has it", ErrCode)
		}
	}
	if len(w.Pending) >= MaxPending {
		return w, "", ErrNoPairing
	}
	w.Pending = append(slices.Clone(w.Pending), Pending{id, code, now})
	return w, code, nil
}

// Approve finds the identity that waits with a code for an operator, and closes the window
// after it. A wrong code is counted.
func (w Window) Approve(operator, code string, now time.Time) (Window, Identity, error) {
	if !w.Open(now) || w.Operator != operator {
		return w, "", fmt.Errorf("%w with %s", ErrNoPairing, operator)
	}
	code = strings.ToUpper(strings.TrimSpace(code))
	for _, p := range w.Pending {
		if subtle.ConstantTimeCompare([]byte(p.Code), []byte(code)) == 1 {
			return Window{}, p.Identity, nil
		}
	}
	if w.Wrong++; w.Wrong >= MaxWrong {
		return Window{}, "", fmt.Errorf("%w, and %d wrong codes end the pairing: begin it anew", ErrCode, MaxWrong)
	}
	return w, "", fmt.Errorf("%w: %d more tries", ErrCode, MaxWrong-w.Wrong)
}
