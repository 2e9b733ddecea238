// Package deadline tells how much is left of a time that somebody set: a person who let
// something through for an hour, a provider whose token lasts ten minutes.
//
// It promises that nothing lasts longer because the machine slept or a clock was set back: both
// clocks count, and the one that is further on decides.
package deadline

import "time"

// Left is how long it is until end: by the clock on the wall, or by the time that this machine
// has been awake, whichever is shorter. Where end was read from somewhere, it is on the wall alone.
func Left(now, end time.Time) time.Duration {
	return min(end.Sub(now), end.Round(0).Sub(now.Round(0)))
}

// Over tells whether nothing is left.
func Over(now, end time.Time) bool { return Left(now, end) <= 0 }
