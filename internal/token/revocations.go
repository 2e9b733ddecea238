package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// MaxRevocations is how many entries a list keeps; one more is refused.
const MaxRevocations = 1 << 16

// ErrRevocationsFull is the refusal of one entry too many.
var ErrRevocationsFull = errors.New("too many revocations are kept: sweep them, or rotate the key, which ends every token at once")

// Revocations say what was revoked (K-12). Implementations are safe for
// concurrent use.
type Revocations interface {
	// Revoke takes effect before it returns; an error means that it did not. One of id and
	// principal is set. An id, as [PathID] has it, covers what derives from it, a principal all
	// that lie under it. Until is when a token with that id expires, and may be swept, or when a
	// principal is let in again. Zero means never.
	Revoke(id, principal string, until time.Time) error
	// Revoked reports whether id, or principal or one that it lies under, is
	// revoked; "" asks for nothing. An error means that nobody can tell.
	Revoked(id, principal string, now time.Time) (bool, error)
	// Sweep forgets entries whose time was over at the last sweep already, so
	// that a clock which is wrong for once loses none.
	Sweep(now time.Time) error
}

// RevocationList keeps revocations in memory, and loses them with the process.
// The zero list is empty and ready.
type RevocationList struct {
	mu         sync.RWMutex
	ids        map[string]time.Time
	principals map[string]time.Time
	swept      time.Time
}

var _ Revocations = (*RevocationList)(nil)

// Revoke implements Revocations.
func (l *RevocationList) Revoke(id, principal string, until time.Time) error {
	if err := CheckRevocation(id, principal); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "" {
		return l.add(&l.ids, id, until)
	}
	return l.add(&l.principals, principal, until)
}

// CheckRevocation refuses what names no token and no principal, or both.
func CheckRevocation(id, principal string) error {
	switch {
	case (id == "") == (principal == ""):
		return errors.New("revocation: name one token id or one principal")
	case id != "" && !isPathID(id):
		return fmt.Errorf("revocation: id %.80q: use 1–%d letters, digits, dots, dashes or _, with slashes between a token's and its derived ones", id, maxID)
	case len(principal) > maxPrincipal || !utf8.ValidString(principal):
		return fmt.Errorf("revocation: principal of %d bytes: use 1–%d of UTF-8", len(principal), maxPrincipal)
	}
	return nil
}

func isPathID(path string) bool {
	links := strings.Split(path, "/")
	return len(links) <= MaxCaveats+1 && !slices.ContainsFunc(links, func(id string) bool { return !isID(id) })
}

// add never shortens a revocation.
func (l *RevocationList) add(m *map[string]time.Time, name string, until time.Time) error {
	have, known := (*m)[name]
	if !known && len(l.ids)+len(l.principals) >= MaxRevocations {
		return ErrRevocationsFull
	}
	if *m == nil {
		*m = make(map[string]time.Time)
	}
	if !known || !have.IsZero() && (until.IsZero() || until.After(have)) {
		(*m)[name] = until.Round(0)
	}
	return nil
}

// Revoked implements Revocations; it never fails.
func (l *RevocationList) Revoked(id, principal string, now time.Time) (bool, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	// An id has its time for the sweep only, whatever the clock says.
	return covers(l.ids, id, time.Time{}) || covers(l.principals, principal, now), nil
}

// covers reports whether name, or one that it lies under, is in m and not over.
func covers(m map[string]time.Time, name string, now time.Time) bool {
	if len(m) == 0 {
		return false
	}
	for end := 0; end < len(name); end++ {
		if slash := strings.IndexByte(name[end:], '/'); slash < 0 {
			end = len(name)
		} else {
			end += slash
		}
		if until, is := m[name[:end]]; is && (until.IsZero() || now.Before(until)) {
			return true
		}
	}
	return false
}

// Sweep implements Revocations.
func (l *RevocationList) Sweep(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := now
	if l.swept.Before(now) {
		over = l.swept
	}
	l.swept = now.Round(0)
	for _, m := range []map[string]time.Time{l.ids, l.principals} {
		for name, until := range m {
			if !until.IsZero() && !over.Before(until) {
				delete(m, name)
			}
		}
	}
	return nil
}
