package dispatch

import (
	"sync"
	"time"
)

const (
	// inAMinute is how many drops of a minute are told each by itself.
	inAMinute = 20
	// maxReasons is how many reasons are told apart among the others.
	maxReasons = 16
	// OtherReasons is what the reasons beyond are counted as.
	OtherReasons = "other reasons"
)

// A Tally tells which drops are worth a record each, so that ten thousand strangers who write fill
// no chain. The first 20 of a minute are, and the others are counted by their reason until somebody
// takes the counts. Its zero value is ready, and safe for concurrent use.
type Tally struct {
	mu     sync.Mutex
	minute time.Time
	told   int
	rest   map[string]int
}

// Each reports whether a drop is told by itself. It is counted where not.
func (t *Tally) Each(now time.Time, reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.minute.IsZero() || now.Sub(t.minute).Abs() >= time.Minute {
		t.minute, t.told = now, 0
	}
	if t.told++; t.told <= inAMinute {
		return true
	}
	if t.rest == nil {
		t.rest = map[string]int{}
	}
	if _, known := t.rest[reason]; !known && len(t.rest) >= maxReasons {
		reason = OtherReasons
	}
	t.rest[reason]++
	return false
}

// Take gives the counts, by reason, and forgets them; nil where nothing was counted.
func (t *Tally) Take() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.rest
	t.rest = nil
	return rest
}
