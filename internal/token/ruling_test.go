package token_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// M-42, M-46: what a person lets through for a time ends by whichever clock is further on. Where the machine
// slept for a day, and where its clock was set back by an hour, it is asked for again.
func TestARulingEndsByEitherClock(t *testing.T) {
	t.Parallel()
	start := time.Now()
	// on is the clock some time later, by what the wall shows and by how long the machine was awake.
	on := func(wall, awake time.Duration) time.Time {
		t := start.Add(wall)
		(*struct {
			_   uint64
			ext int64
		})(unsafe.Pointer(&t)).ext += int64(awake - wall)
		return t
	}
	for name, c := range map[string]struct {
		now   time.Time
		holds bool
	}{
		"its time is not over":                       {on(14*time.Minute, 14*time.Minute), true},
		"its time is over":                           {on(15*time.Minute, 15*time.Minute), false},
		"the machine slept for a day":                {on(24*time.Hour, time.Minute), false},
		"the clock was set on by a day":              {on(24*time.Hour+time.Second, time.Second), false},
		"the clock was set back, and it is not over": {on(-time.Hour, time.Minute), true},
		"the clock was set back, and it is over":     {on(-time.Hour, 15*time.Minute), false},
	} {
		var s token.Standings
		q, key := nacre.Question{ID: "abcde", Digest: "d", Expires: start.Add(time.Hour)}, token.Digest{1}
		s.Keep(key, q, nacre.Ruling{Verdict: nacre.Allow, Digest: "d", For: 15 * time.Minute, Scope: nacre.ScopeSame}, start)
		if _, have := s.Take([]token.Digest{key}, c.now); have != c.holds {
			t.Errorf("%s: it stands: %v", name, have)
		}
	}
	for name, now := range map[string]time.Time{"by the wall": on(2*time.Hour, time.Minute), "by the time awake": on(time.Minute, 2*time.Hour)} {
		var s token.Standings
		q, key := nacre.Question{ID: "abcde", Digest: "d", Expires: start.Add(time.Hour)}, token.Digest{1}
		s.Keep(key, q, nacre.Ruling{Verdict: nacre.Allow, Digest: "d", For: 15 * time.Minute, Scope: nacre.ScopeSame}, now)
		if _, have := s.Take([]token.Digest{key}, now); have {
			t.Errorf("an answer to a question whose time was over %s stands", name)
		}
	}
}
