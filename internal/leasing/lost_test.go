package leasing_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/leasing"
)

// M-35: what a credential gave is lost with its time, and where it was taken back after it was given;
// what was given after that is not.
func TestWhatWasGivenIsLost(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		until, lost time.Time
		since, now  int
		want        bool
	}{
		"without end":                    {now: 10_000},
		"before its end":                 {until: at(60), now: 59},
		"at its end":                     {until: at(60), now: 60, want: true},
		"taken back while it was used":   {lost: at(5), since: 4, now: 6, want: true},
		"taken back before it was given": {lost: at(5), since: 6, now: 7},
	} {
		s := leasing.Standing(c.until, c.lost)
		if have := s(at(c.since), at(c.now)); have != c.want {
			t.Errorf("%s: have %v", name, have)
		}
	}
}

// M-36: what is open to a host ends with the login that was made meanwhile, and not with an earlier one.
func TestALoginIsLost(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	lost := leasing.LoggedIn([2]time.Time{at(1), at(60)}, [2]time.Time{at(10), {}})
	for name, c := range map[string]struct {
		since, now int
		gone, want bool
	}{
		"before its hours are over": {since: 0, now: 59},
		"after them":                {since: 0, now: 60, want: true},
		"opened after that login":   {since: 2, now: 60},
		"its key is gone":           {since: 2, now: 20, gone: true, want: true},
		"opened after all logins":   {since: 11, now: 20, gone: true},
	} {
		if have := lost(at(c.since), at(c.now), c.gone); have != c.want {
			t.Errorf("%s: have %v", name, have)
		}
	}
}
