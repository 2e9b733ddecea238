package token

import (
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
)

const (
	// MaxStanding is the longest that a ruling stands. It ends with its session.
	MaxStanding = 8 * time.Hour
	// maxKept are kept of one session; beyond them a person is asked again.
	maxKept = 256
)

// Standing is a person's ruling on everything that is like what they were asked (D-13), or on a
// single call of a session before it was interrupted (M-55). What calls have in common for which it
// stands, whoever asks digests.
type Standing struct {
	Verdict  nacre.Verdict
	Question string
	Digest   string
	By       string
	// Done is when the one call that it was given for had been carried out; zero where it had not.
	Done time.Time

	// It holds from since until until, by whichever clock is further on: a machine that slept and a clock
	// that goes back make it no longer.
	since, until time.Time
	// left is for how many more calls it stands, where it is counted.
	counted bool
	left    int
}

func (s Standing) holds(now time.Time) bool {
	return !now.Before(s.since) && !deadline.Over(now, s.until)
}

// Standings are the rulings of one session. The zero value has none. A refusal wins over a consent,
// and an answer for one call is good for one. It is safe for concurrent use.
type Standings struct {
	// Salt keeps what a ruling is about from whoever reads its digest in a record. It is set before use.
	Salt Digest

	mu   sync.Mutex
	kept map[Digest]Standing
	// done are approvals of single calls that were carried out before the session was interrupted.
	done map[Digest][]Standing
}

// ScopeOf is what a ruling stands for, and once where it is for the call that was asked about alone.
func ScopeOf(r nacre.Ruling) nacre.RulingScope {
	if r.For <= 0 || r.Times == 1 {
		return nacre.ScopeOnce
	}
	return r.Scope
}

// Keep remembers a ruling on a question, from now on for as long as it says.
func (s *Standings) Keep(key Digest, q nacre.Question, r nacre.Ruling, now time.Time) {
	if ScopeOf(r) == nacre.ScopeOnce || r.Times < 0 || r.Digest != q.Digest || deadline.Over(now, q.Expires) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = make(map[Digest]Standing)
	}
	for key, old := range s.kept {
		if deadline.Over(now, old.until) {
			delete(s.kept, key)
		}
	}
	if len(s.kept) >= maxKept {
		return
	}
	s.kept[key] = Standing{
		Verdict: r.Verdict, since: now, until: now.Add(min(r.For, MaxStanding)), Question: q.ID, Digest: q.Digest, By: r.By,
		counted: r.Times > 0, left: r.Times - 1,
	}
}

// Forget drops all of them.
func (s *Standings) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.done = nil, nil
}

// Take returns what was ruled on a call that any of the keys is about, and counts the call. A refusal
// wins over a consent.
func (s *Standings) Take(keys []Digest, now time.Time) (found Standing, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at Digest
	for _, key := range keys {
		kept, known := s.kept[key]
		if known && kept.holds(now) && (!is || kept.Verdict < found.Verdict) {
			found, at, is = kept, key, true
		}
	}
	if is {
		s.count(at, found)
	}
	return found, is
}

// count takes one call off a ruling that stands for so many. It is called with mu held.
func (s *Standings) count(key Digest, taken Standing) {
	if !taken.counted {
		return
	}
	if taken.left--; taken.left <= 0 {
		delete(s.kept, key)
		return
	}
	s.kept[key] = taken
}

// TakeDone takes the approval of one such call that had been carried out before the session was
// interrupted.
func (s *Standings) TakeDone(key Digest, now time.Time) (done Standing, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier := s.done[key]
	if len(earlier) == 0 || !earlier[0].holds(now) {
		return Standing{}, false
	}
	s.done[key] = earlier[1:]
	return earlier[0], true
}

// Again lets a ruling stand for one more call.
func (s *Standings) Again(key Digest, one Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.counted, one.left = true, 1
	s.put(key, one)
}

// put adds a ruling to what stands; it is called with mu held, and a map that is made.
func (s *Standings) put(key Digest, one Standing) {
	switch have, known := s.kept[key]; {
	case known && have.Verdict < one.Verdict: // a refusal stays
	case known && have.Verdict == one.Verdict && have.counted && one.counted:
		have.left += one.left
		s.kept[key] = have
	case known || len(s.kept) < maxKept:
		s.kept[key] = one
	}
}

// Restore takes in, in the place of what stands, what was ruled before the session was interrupted:
// all of it, or nothing and an error.
func (s *Standings) Restore(rulings []nacre.Ruled) error {
	keys := make([]Digest, len(rulings))
	for i, r := range rulings {
		var err error
		if keys[i], err = keyOf(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.done = map[Digest]Standing{}, map[Digest][]Standing{}
	for i, r := range rulings {
		switch one, holds := standingOf(r); {
		case !holds:
		case !one.Done.IsZero():
			s.done[keys[i]] = append(s.done[keys[i]], one)
		default:
			s.put(keys[i], one)
		}
	}
	return nil
}

// standingOf is what of a ruling still holds; false where nothing does. A call that began and has
// no end may have been carried out or not: that is for a person to say, once more.
func standingOf(r nacre.Ruled) (s Standing, holds bool) {
	s = Standing{Verdict: r.Verdict, Question: r.Question, Digest: r.Digest, By: r.By, since: r.At, until: r.At.Add(MaxStanding)}
	switch {
	case r.Span > 0 && r.Times != 1:
		s.until, s.counted, s.left = r.At.Add(min(r.Span, MaxStanding)), r.Times > 0, r.Times-r.Uses
		return s, r.Times == 0 || s.left > 0
	case r.Verdict == nacre.Allow && r.Uses > 0:
		s.Done = r.Done
		return s, !r.Done.IsZero()
	}
	s.counted, s.left = true, 1
	return s, true
}

func keyOf(r nacre.Ruled) (key Digest, err error) {
	if len(r.Like) == hex.EncodedLen(len(key)) {
		_, err = hex.Decode(key[:], []byte(r.Like))
	}
	if len(r.Like) != hex.EncodedLen(len(key)) || err != nil || r.Question == "" {
		return key, fmt.Errorf("the ruling on question %.40q: %.80q is no digest of what it is about", r.Question, r.Like)
	}
	return key, nil
}
