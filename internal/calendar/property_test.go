package calendar_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre/internal/calendar"
)

// zones are those whose rules are the least usual.
func zones() []string {
	return []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Europe/Dublin", "Asia/Tehran",
		"Asia/Gaza", "America/St_Johns", "Pacific/Chatham", "Antarctica/Troll", "America/Havana", "Asia/Kathmandu", "Asia/Pyongyang", "America/Caracas", "Pacific/Kwajalein",
	}
}

// fields are a cron expression's, as sets; nil is a star.
type fields struct{ minute, hour, day, month, weekday []int }

func drawFields(t *rapid.T) fields {
	field := func(name string, low, high, most int) []int {
		if rapid.Bool().Draw(t, name+" is a star") {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, most, rapid.ID[int]).Draw(t, name)
	}
	return fields{field("minute", 0, 59, 4), field("hour", 0, 23, 8), field("day", 1, 31, 20), field("month", 1, 12, 12), field("weekday", 0, 6, 5)}
}

func (f fields) String() string {
	var parts []string
	for _, set := range [][]int{f.minute, f.hour, f.day, f.month, f.weekday} {
		var values []string
		for _, v := range set {
			values = append(values, strconv.Itoa(v))
		}
		if set == nil {
			values = []string{"*"}
		}
		parts = append(parts, strings.Join(values, ","))
	}
	return strings.Join(parts, " ")
}

func (f fields) fits(wall time.Time) bool {
	in := func(set []int, v int) bool { return set == nil || slices.Contains(set, v) }
	day, weekday := in(f.day, wall.Day()), in(f.weekday, int(wall.Weekday()))
	if f.day != nil && f.weekday != nil {
		day, weekday = day || weekday, true
	}
	return in(f.minute, wall.Minute()) && in(f.hour, wall.Hour()) && in(f.month, int(wall.Month())) && day && weekday
}

// walked are the ticks after one moment and up to another, found minute by minute.
func (f fields) walked(zone *time.Location, after, until time.Time) []time.Time {
	wall := func(t time.Time) time.Time {
		_, offset := t.In(zone).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	fixed := f.minute != nil && f.hour != nil
	var ticks []time.Time
	t := after.Add(-49 * time.Hour).Truncate(time.Minute) // what was already, before after
	seen := wall(t)
	for t = t.Add(time.Minute); !t.After(until); t = t.Add(time.Minute) {
		now, due := wall(t), false
		left := now.Sub(seen) - time.Minute
		if fixed && left > 0 && left < 3*time.Hour {
			for missing := seen.Add(time.Minute); missing.Before(now); missing = missing.Add(time.Minute) {
				due = due || f.fits(missing)
			}
		}
		due = due || f.fits(now) && (!fixed || now.After(seen))
		if due && t.After(after) {
			ticks = append(ticks, t)
		}
		if !fixed || now.After(seen) {
			seen = now
		}
	}
	return ticks
}

// D-34: ticks are strictly increasing, and exactly those that a walk by minutes
// finds, around all sorts of changes of the clocks.
func TestNextIsWhatAWalkFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones()).Draw(t, "zone")
		zone, err := calendar.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		f := drawFields(t)
		s, err := calendar.Parse(calendar.Cron, f.String(), name, time.Unix(0, 0))
		if err != nil {
			return // it never comes
		}
		moment := time.Unix(rapid.Int64Range(6e8, 41e8).Draw(t, "moment"), 0).In(zone)
		if rapid.IntRange(0, 9).Draw(t, "at a year's end") == 0 {
			moment = time.Date(moment.Year()/4*4, 12, 31, 12, 0, 0, 0, zone)
		} else if _, change := moment.ZoneBounds(); !change.IsZero() {
			moment = change
		}
		after := moment.Add(-time.Duration(rapid.IntRange(-600, 3000).Draw(t, "minutes before")) * time.Minute)
		until := after.Add(4 * 24 * time.Hour)
		want := f.walked(zone, after, until)
		at := after
		for _, w := range want {
			next, ok := s.Next(at)
			if !ok || !next.Equal(w) {
				t.Fatalf("%s in %s after %s: have %s, want %s", f, name, at.In(zone), next, w.In(zone))
			}
			at = next
		}
		if next, ok := s.Next(at); ok && !next.After(until) {
			t.Fatalf("%s in %s after %s: %s, which no walk finds", f, name, at.In(zone), next)
		}
	})
}

// D-34: the latest of many missed ticks is the last that Next would give.
func TestDueIsTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFields(t)
		s, err := calendar.Parse(calendar.Cron, f.String(), rapid.SampledFrom(zones()).Draw(t, "zone"), time.Unix(0, 0))
		if err != nil {
			return // it never comes
		}
		last := time.Unix(rapid.Int64Range(6e8, 21e8).Draw(t, "last"), 0)
		now := last.Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "seconds")) * time.Second)
		var want, first time.Time
		for at, ok := s.Next(last); ok && !at.After(now); at, ok = s.Next(at) {
			if want = at; first.IsZero() {
				first = at
			}
		}
		due := s.Due(last, now, calendar.RunOnce, 0)
		if !due.Run.Equal(want) || !due.Missed.IsZero() && !due.Missed.Equal(first) || due.Missed.IsZero() && !first.Equal(want) {
			t.Fatalf("%s from %s to %s: have %+v, want %s, first %s", f, last, now, due, want, first)
		}
	})
}

// D-34: where a widely used library reads an expression too, it means the same.
func TestExpressionsMeanWhatOthersTakeThemFor(t *testing.T) {
	part := func(low, high int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			a, b := rapid.IntRange(low, high).Draw(t, "a"), rapid.IntRange(low, high).Draw(t, "b")
			step := "/" + strconv.Itoa(rapid.IntRange(1, high).Draw(t, "step"))
			return rapid.SampledFrom([]string{
				"*", "*", strconv.Itoa(a), strconv.Itoa(a) + step, strconv.Itoa(min(a, b)) + "-" + strconv.Itoa(max(a, b)), strconv.Itoa(min(a, b)) + "-" + strconv.Itoa(max(a, b)) + step,
				strconv.Itoa(a) + "," + strconv.Itoa(b), "*" + step,
			}).Draw(t, "form")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{
			part(0, 59).Draw(t, "minute"), part(0, 23).Draw(t, "hour"), part(1, 31).Draw(t, "day"), part(1, 12).Draw(t, "month"), part(0, 6).Draw(t, "weekday"),
		}
		if strings.HasPrefix(parts[2], "*/") || strings.HasPrefix(parts[4], "*/") {
			parts[2] = "*" // a star with a step is where the library leaves cron's ways
			if strings.HasPrefix(parts[4], "*/") {
				parts[4] = "*"
			}
		}
		text := strings.Join(parts, " ")
		theirs, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := calendar.Parse(calendar.Cron, text, "UTC", time.Unix(0, 0))
		if err != nil {
			if next := theirs.Next(time.Unix(1e9, 0).UTC()); !next.IsZero() {
				t.Fatalf("%s: %v, but it is due at %s", text, err, next)
			}
			return
		}
		at := time.Unix(rapid.Int64Range(6e8, 21e8).Draw(t, "moment"), 0).UTC()
		for range 5 {
			want := theirs.Next(at)
			if want.IsZero() {
				return // it looks five years ahead
			}
			if have, ok := ours.Next(at); !ok || !have.Equal(want) {
				t.Fatalf("%s after %s: have %s, want %s", text, at, have, want)
			}
			at = want
		}
	})
}

// D-34: no text makes it panic or hang, and what is taken has increasing ticks.
func FuzzParse(f *testing.F) {
	for _, seed := range [][3]string{
		{"cron", "0 6 * * mon-fri", "Europe/Berlin"}, {"cron", "*/7 1-5/2,8 29 2 */7", "Pacific/Apia"}, {"cron", "@daily", "UTC"}, {"cron", "TZ=", "UTC"},
		{"cron", "9223372036854775807/9223372036854775807 * * * *", "UTC"}, {"interval", "15m", "Asia/Kathmandu"}, {"interval", "1e308h", "UTC"},
		{"once", "2026-11-22T17:00:00+01:00", "UTC"}, {"once", "02:30", "Australia/Lord_Howe"}, {"once", "9999-12-31T23:59:60Z", "UTC"}, {"", "", ""}, {"cron", "0 0 1 1 mon", "Europe/Berlin"},
	} {
		f.Add(seed[0], seed[1], seed[2], int64(1_795_000_000))
	}
	f.Fuzz(func(t *testing.T, kind, value, zone string, created int64) {
		s, err := calendar.Parse(calendar.Kind(kind), value, zone, time.Unix(created, 0))
		if err != nil {
			return
		}
		at := time.Unix(created, 0)
		for range 3 {
			next, ok := s.Next(at)
			if !ok {
				break
			}
			if !next.After(at) {
				t.Fatalf("%s is not after %s", next, at)
			}
			at = next
		}
		s.Due(time.Unix(created, 0), time.Unix(253402300799, 0), calendar.RunOnce, time.Minute)
	})
}

// BenchmarkNext is the next tick of a schedule in a zone with summer time; the
// floor is to tell the time there.
func BenchmarkNext(b *testing.B) {
	zone, err := calendar.Zone("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	after := time.Unix(1_795_000_000, 0)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			_ = after.In(zone).Hour()
		}
	})
	for name, expression := range map[string]string{"ours": "0 6 * * mon-fri", "in February": "0 0 29 2 */7"} {
		s, err := calendar.Parse(calendar.Cron, expression, "Europe/Berlin", after)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Next(after)
			}
		})
	}
}
