// Package calendar says when a schedule is due (D-34): by a cron expression, an
// interval or one moment, in a time zone with its summer time.
//
// It promises that ticks are strictly increasing, and that its work is bounded whatever the clock
// says. A time which exists twice or not at all is treated as cron's users know it:
//
//   - A fixed time, one whose minute and hour are both given, that falls into the
//     hour which is left out is due once, right after the gap. In the hour which
//     comes twice it is due the first time only.
//   - With a minute or an hour that begins with "*" a schedule goes by the clock on the wall.
//     Nothing is made up for, and the hour that comes twice is gone through twice.
//   - A gap of three hours or more, such as the day that Samoa left out, is a day
//     that was not: nothing is made up for.
//
// It reads no clock and keeps nothing; `now` is an argument. It brings a copy of
// the time zone database for machines that have none.
package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database
)

// Kind is what a schedule goes by.
type Kind string

// The kinds.
const (
	Cron     Kind = "cron"
	Interval Kind = "interval"
	Once     Kind = "once"
)

// Limits of a schedule's times.
const (
	MinInterval = time.Minute
	MaxInterval = 366 * 24 * time.Hour
	// maxValue is the longest value, in bytes; maxZone the longest name of a zone.
	maxValue = 256
	maxZone  = 64
	// horizon is further away than any tick of a day that exists: 29 February on
	// one weekday is up to 40 years from the next.
	horizon = 48
	// firstYear and lastYear are the years that ticks are looked for in.
	firstYear, lastYear = 1900, 9000
)

// ErrNever says that a schedule would never be due.
var ErrNever = errors.New("it would never be due")

// Spec is when a schedule is due. Its zero value is never due.
type Spec struct {
	kind  Kind
	value string
	zone  *time.Location
	cron  expression
	// first and every are an interval's, in seconds; first is also the moment of
	// a schedule that is due once.
	first, every int64
}

// Parse reads a schedule. The value of a cron schedule has five fields. That of an interval is a
// duration of whole seconds, such as "15m", counted from created. That of one moment is after RFC
// 3339, or "17:00" for the next time after created that the zone's clocks say so. zone is an IANA
// name, such as "Europe/Berlin".
func Parse(kind Kind, value, zone string, created time.Time) (Spec, error) {
	s := Spec{kind: kind, value: strings.TrimSpace(value)}
	var err error
	if s.zone, err = Zone(zone); err != nil {
		return Spec{}, err
	}
	if len(value) > maxValue {
		return Spec{}, fmt.Errorf("%s of %d bytes: at most %d", kind, len(value), maxValue)
	}
	if year := created.UTC().Year(); year <= firstYear || year >= lastYear {
		return Spec{}, fmt.Errorf("a clock that says %d: set it", year)
	}
	switch kind {
	case Cron:
		s.cron, err = parseExpression(s.value)
	case Interval:
		err = s.parseInterval(created)
	case Once:
		err = s.parseOnce(created)
	default:
		err = fmt.Errorf("kind %.40q: use cron, interval or once", string(kind))
	}
	if err != nil {
		return Spec{}, err
	}
	return s, nil
}

// Zone finds a time zone by its IANA name.
func Zone(name string) (*time.Location, error) {
	bad := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_+-/", c)
	}
	if name == "" || name == "Local" || len(name) > maxZone || strings.ContainsFunc(name, bad) {
		return nil, fmt.Errorf("time zone %.80q: use a name such as Europe/Berlin or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known: use a name such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

func (s *Spec) parseInterval(created time.Time) error {
	every, err := time.ParseDuration(s.value)
	switch {
	case err != nil:
		return fmt.Errorf("interval %q: use a duration such as 15m, 2h or 24h", s.value)
	case every < MinInterval || every > MaxInterval:
		return fmt.Errorf("interval %s: use %s to %s", s.value, "1m", "8784h")
	case every%time.Second != 0:
		return fmt.Errorf("interval %s: use whole seconds", s.value)
	}
	s.every = int64(every / time.Second)
	s.first = created.Unix() + s.every
	return nil
}

func (s *Spec) parseOnce(created time.Time) error {
	var at time.Time
	if clock, err := time.Parse("15:04", s.value); err == nil && len(s.value) == len("15:04") {
		daily := expression{minute: 1 << clock.Minute(), hour: 1 << clock.Hour(), day: anyDay, month: anyMonth, weekday: anyWeekday, eachDay: true, fixed: true}
		next, ok := daily.next(created, s.zone)
		if !ok {
			return ErrNever
		}
		at = next
	} else if err := at.UnmarshalText([]byte(s.value)); err != nil {
		return fmt.Errorf("time %q: use one such as 2026-11-22T17:00:00+01:00, or 17:00 for the next time it is five", s.value)
	}
	at = at.Truncate(time.Second)
	if !at.After(created) {
		return fmt.Errorf("%w: %s is over", ErrNever, at.Format(time.RFC3339))
	}
	if at.UTC().Year() >= lastYear {
		return fmt.Errorf("time %q: use a year before %d", s.value, lastYear)
	}
	s.first, s.value = at.Unix(), at.In(s.zone).Format(time.RFC3339)
	return nil
}

// Value is what Parse was given. Of one moment it is the moment, after RFC 3339, which does not
// depend on when it is parsed.
func (s Spec) Value() string { return s.value }

// Next is the first tick after a moment, in the schedule's zone. Without one it
// reports false.
func (s Spec) Next(after time.Time) (time.Time, bool) {
	if s.zone == nil || after.UTC().Year() >= lastYear {
		return time.Time{}, false
	}
	if after.UTC().Year() < firstYear {
		after = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	switch s.kind {
	case Cron:
		return s.cron.next(after, s.zone)
	case Interval:
		at := s.first
		if passed := after.Unix() - s.first; passed >= 0 {
			at += (passed/s.every + 1) * s.every
		}
		return time.Unix(at, 0).In(s.zone), true
	}
	at := time.Unix(s.first, 0).In(s.zone)
	return at, at.After(after)
}

// last is the latest tick after one moment and not after another, found by halving
// the time between them: the clock may have jumped by years.
func (s Spec) last(after, now time.Time) (time.Time, bool) {
	due := func(t time.Time) bool {
		next, ok := s.Next(t)
		return ok && !next.After(now)
	}
	if !due(after) {
		return time.Time{}, false
	}
	low, high := after.Unix(), now.Unix()+1
	for high-low > 1 {
		if middle := low + (high-low)/2; due(time.Unix(middle, 0)) {
			low = middle
		} else {
			high = middle
		}
	}
	if low == after.Unix() {
		return s.Next(after)
	}
	return s.Next(time.Unix(low, 0))
}

// Policy says what becomes of ticks that nobody was there for.
type Policy string

// The policies. Of many missed ticks RunOnce runs the latest; Skip runs none.
const (
	RunOnce Policy = "run-once"
	Skip    Policy = "skip"
)

// ParsePolicy reads a policy; empty means RunOnce.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return RunOnce, nil
	case RunOnce, Skip:
		return p, nil
	}
	return "", fmt.Errorf("policy for missed runs %.40q: use run-once or skip", s)
}

// Due is what a schedule asks for now. What is zero is not there.
type Due struct {
	// Run is the tick to run now.
	Run time.Time
	// Skip is the latest tick that is over and that the policy leaves out.
	Skip time.Time
	// Missed is the first of the ticks that Run or Skip stands for, where there is
	// more than one.
	Missed time.Time
	// Next is the first tick after now.
	Next time.Time
}

// Due says what is due now of the ticks after last, which is the latest that was
// dealt with. A tick that is at most grace late was not missed. Where last is
// ahead of now, because the clock went back, nothing is due.
func (s Spec) Due(last, now time.Time, policy Policy, grace time.Duration) Due {
	var d Due
	latest, ok := s.last(last, now)
	d.Next, _ = s.Next(now)
	if !ok {
		return d
	}
	if first, _ := s.Next(last); first.Before(latest) {
		d.Missed = first
	}
	if policy == RunOnce || now.Sub(latest) <= grace {
		d.Run = latest
	} else {
		d.Skip = latest
	}
	return d
}
