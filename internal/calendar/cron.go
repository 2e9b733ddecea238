package calendar

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// expression is a cron expression: a bit for each value of each field.
type expression struct {
	minute, hour, day, month, weekday uint64
	// eachDay says that the day of the month or of the week begins with "*": a day
	// must then fit both, and else either.
	eachDay bool
	// fixed says that neither minute nor hour begins with "*".
	fixed bool
}

const (
	anyDay     = 1<<32 - 1<<1
	anyMonth   = 1<<13 - 1<<1
	anyWeekday = 1<<7 - 1
	// maxGap is how long a gap must be to count as days that were not.
	maxGap = 3 * time.Hour
)

// field is what one of the five may hold.
type field struct {
	name     string
	min, max int
	names    string // three letters each, from min on
}

func fields() [5]field {
	return [5]field{
		{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
		{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"day of the week", 0, 7, "sunmontuewedthufrisat"},
	}
}

// shorthand is what an expression with a name stands for.
func shorthand(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@hourly":
		return "0 * * * *", true
	}
	return "", false
}

// parseExpression reads five fields, or one of the names such as @daily. It is
// stricter than the libraries at hand: what could be read in two ways is refused.
func parseExpression(text string) (expression, error) {
	if strings.HasPrefix(text, "@") {
		long, ok := shorthand(text)
		if !ok {
			return expression{}, fmt.Errorf("cron %q: use @hourly, @daily, @weekly, @monthly or @yearly, or five fields; for @every use an interval", text)
		}
		text = long
	}
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return expression{}, fmt.Errorf("cron %q has %d fields: use five, minute hour day month weekday, such as \"0 6 * * mon-fri\"", text, len(parts))
	}
	var sets [5]uint64
	for i, f := range fields() {
		set, err := f.parse(parts[i])
		if err != nil {
			return expression{}, fmt.Errorf("cron %q: %s: %w", text, f.name, err)
		}
		sets[i] = set
	}
	e := expression{minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: (sets[4] | sets[4]>>7) & anyWeekday}
	e.eachDay = starred(parts[2]) || starred(parts[4])
	e.fixed = !starred(parts[0]) && !starred(parts[1])
	if e.never() {
		return expression{}, fmt.Errorf("cron %q: %w: no month it names has such a day", text, ErrNever)
	}
	return e, nil
}

func starred(part string) bool { return part[0] == '*' || part[0] == '?' }

func (f field) parse(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		bits, err := f.parsePart(part)
		if err != nil {
			return 0, err
		}
		set |= bits
	}
	return set, nil
}

// parsePart reads "*", a value or a range, and the step after it.
func (f field) parsePart(part string) (uint64, error) {
	span, stepText, stepped := strings.Cut(part, "/")
	step, low, high := 1, f.min, f.max
	if f.max == 7 {
		high = 6 // Sunday once: a step must not meet it again as 7
	}
	var err error
	if stepped {
		if step, err = number(stepText); err != nil || step < 1 || step > f.max {
			return 0, fmt.Errorf("step %q: use 1 to %d", stepText, f.max)
		}
	}
	lowText, highText, ranged := strings.Cut(span, "-")
	switch {
	case span == "*", span == "?" && !stepped && strings.HasPrefix(f.name, "day"):
	default:
		if low, err = f.value(lowText); err != nil {
			return 0, err
		}
		if ranged {
			high, err = f.value(highText)
		} else if !stepped {
			high = low
		}
	}
	if err != nil {
		return 0, err
	}
	if ranged && low > 0 && strings.EqualFold(highText, "sun") {
		high = 7 // fri-sun
	}
	if low > high {
		return 0, fmt.Errorf("%q goes backwards: write it as two, such as %s-%d,%d-%s", part, lowText, f.max, f.min, highText)
	}
	var set uint64
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	if at := strings.Index(f.names, strings.ToLower(text)); len(text) == 3 && at >= 0 && at%3 == 0 {
		return f.min + at/3, nil
	}
	v, err := number(text)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("%.40q: use %d to %d", text, f.min, f.max)
	}
	return v, nil
}

// number reads one or two digits, and nothing else.
func number(text string) (int, error) {
	if len(text) < 1 || len(text) > 2 || text[0] < '0' || text[0] > '9' {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// never tells an expression whose days no month has. Every day that there is
// falls on every weekday in some year.
func (e expression) never() bool {
	if !e.eachDay {
		return false // the weekday is enough
	}
	first := bits.TrailingZeros64(e.day)
	for month := 1; month <= 12; month++ {
		days := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() // a leap year
		if e.month&(1<<month) != 0 && first <= days {
			return false
		}
	}
	return true
}

// next walks the stretches of time in which the zone's offset is the same. In
// each of them the clock on the wall is one that knows no summer time.
func (e expression) next(after time.Time, zone *time.Location) (time.Time, bool) {
	limit := after.AddDate(horizon, 0, 0)
	from := minuteAfter(wallOf(after.In(zone)))
	for at := after.In(zone); at.Before(limit); {
		start, end := stretch(at)
		_, offset := at.Zone()
		until := limit
		if !end.IsZero() && end.Before(limit) {
			until = end
		}
		if e.fixed && !start.IsZero() {
			from = later(from, ceilMinute(wallOf(start.Add(-time.Nanosecond)).Add(time.Nanosecond))) // up to there it was already
		}
		if wall, ok := e.nextWall(from, until.UTC().Add(seconds(offset))); ok {
			return wall.Add(-seconds(offset)).In(zone), true
		}
		if !until.Equal(end) {
			break
		}
		before, behind := end.UTC().Add(seconds(offset)), wallOf(end)
		if gap := behind.Sub(before); e.fixed && gap > 0 && gap < maxGap {
			if _, ok := e.nextWall(ceilMinute(before), behind); ok {
				return end, true
			}
		}
		from, at = ceilMinute(behind), end
	}
	return time.Time{}, false
}

// stretch is the time around a moment in which its zone's offset is the same, or
// a part of it. The library's own bounds end before the moment on the last day of
// far leap years, when no zone changes its clocks.
func stretch(at time.Time) (start, end time.Time) {
	start, end = at.ZoneBounds()
	if !end.IsZero() && !end.After(at) {
		end = at.Add(24 * time.Hour)
	}
	return start, end
}

// nextWall is the first fitting minute from one moment on and before another, on a
// clock that knows no summer time.
func (e expression) nextWall(from, until time.Time) (time.Time, bool) {
	for t := from; t.Before(until); {
		year, month, day := t.Date()
		hour, minute := above(e.hour, t.Hour()), above(e.minute, t.Minute())
		switch {
		case e.month&(1<<month) == 0:
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !e.fits(t) || hour > 23:
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case hour > t.Hour():
			t = time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
		case minute > 59:
			t = time.Date(year, month, day, hour+1, 0, 0, 0, time.UTC)
		case minute > t.Minute():
			t = time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// fits tells whether a day is one of the expression's.
func (e expression) fits(t time.Time) bool {
	day, weekday := e.day&(1<<t.Day()) != 0, e.weekday&(1<<t.Weekday()) != 0
	if e.eachDay {
		return day && weekday
	}
	return day || weekday
}

// above is the first value of a set from low on, 64 where there is none.
func above(set uint64, low int) int { return bits.TrailingZeros64(set >> low << low) }

// wallOf is what the clock on the wall says at a moment, written as if in UTC.
func wallOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(seconds(offset))
}

func minuteAfter(wall time.Time) time.Time { return wall.Truncate(time.Minute).Add(time.Minute) }

func ceilMinute(wall time.Time) time.Time {
	return wall.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
