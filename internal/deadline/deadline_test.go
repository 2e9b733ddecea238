package deadline_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/nacre-dev/nacre/internal/deadline"
)

// M-46: what was let through for a time ends by whichever clock is further on.
func TestADeadlineEndsByEitherClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	// slept is the clock of a machine that slept: the time that it was awake did not go on.
	slept := func(t time.Time, asleep time.Duration) time.Time {
		t = t.Add(asleep)
		(*struct {
			_     uint64
			awake int64
		})(unsafe.Pointer(&t)).awake -= int64(asleep)
		return t
	}
	onTheWall := func(t time.Time) time.Time { return t.Round(0) }
	for name, c := range map[string]struct {
		now, end time.Time
		left     time.Duration
	}{
		"nothing happened":                   {now, now.Add(time.Hour), time.Hour},
		"it was read from a file":            {now, onTheWall(now.Add(time.Hour)), time.Hour},
		"the machine slept meanwhile":        {slept(now, 50*time.Minute), now.Add(time.Hour), 10 * time.Minute},
		"the machine slept longer":           {slept(now, 2*time.Hour), now.Add(time.Hour), -time.Hour},
		"the clock was set back":             {slept(now.Add(time.Hour), -time.Hour), now.Add(time.Hour), 0},
		"its time came":                      {now.Add(time.Hour), now.Add(time.Hour), 0},
		"its time came, as read from a file": {now.Add(time.Hour), onTheWall(now.Add(time.Hour)), 0},
	} {
		if left := deadline.Left(c.now, c.end); left != c.left || deadline.Over(c.now, c.end) != (c.left <= 0) {
			t.Errorf("%s: %v is left, want %v", name, left, c.left)
		}
	}
}
