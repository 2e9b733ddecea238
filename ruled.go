package nacre

import "time"

// Ruled is what a person ruled in a session before it was interrupted, as its records have it (M-55).
type Ruled struct {
	// Like says what the ruling is about: the field of that name of approval.reply.
	Like     string
	Verdict  Verdict
	Question string
	Digest   string
	By       string
	// At is when the person answered. Span is for how long the ruling stands; zero is for the one call
	// that was asked about.
	At   time.Time
	Span time.Duration
	// Times is for how many calls at most it stands, zero for any number; Uses is how many began.
	Times, Uses int
	// Done is when the last of them had been carried out; zero where none had, as far as is recorded.
	Done time.Time
}
