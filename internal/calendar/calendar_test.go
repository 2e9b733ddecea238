package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/calendar"
)

const form = "2006-01-02 15:04:05 -0700"

// at reads a moment; without an offset it is in UTC.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{form, "2006-01-02 15:04 -0700", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if moment, err := time.Parse(layout, text); err == nil {
			return moment
		}
	}
	t.Fatalf("no moment: %q", text)
	return time.Time{}
}

func parse(t testing.TB, kind calendar.Kind, value, zone, created string) calendar.Spec {
	t.Helper()
	s, err := calendar.Parse(kind, value, zone, at(t, created))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// from are the first ticks after a moment.
func from(s calendar.Spec, after time.Time, n int) []string {
	var list []string
	for range n {
		next, ok := s.Next(after)
		if !ok {
			return append(list, "never")
		}
		list, after = append(list, next.Format("2006-01-02 15:04 -0700")), next
	}
	return list
}

func same(t *testing.T, what string, have []string, want string) {
	t.Helper()
	if h, w := strings.Join(have, "\n"), strings.TrimSpace(strings.ReplaceAll(want, "; ", "\n")); h != w {
		t.Errorf("%s:\nhave %s\nwant %s", what, strings.ReplaceAll(h, "\n", "; "), strings.ReplaceAll(w, "\n", "; "))
	}
}

// D-34: what a cron expression means, in a zone without summer time.
func TestExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		"* * * * *":          "2026-11-21 12:31 +0000; 2026-11-21 12:32 +0000",
		"0 6 * * *":          "2026-11-22 06:00 +0000; 2026-11-23 06:00 +0000",
		"*/20 * * * *":       "2026-11-21 12:40 +0000; 2026-11-21 13:00 +0000",
		"5/20 * * * *":       "2026-11-21 12:45 +0000; 2026-11-21 13:05 +0000",
		"10-40/15 12 * * *":  "2026-11-21 12:40 +0000; 2026-11-22 12:10 +0000",
		"0 9,17 * * mon-fri": "2026-11-23 09:00 +0000; 2026-11-23 17:00 +0000",
		"0 0 * * 7":          "2026-11-22 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * 0":          "2026-11-22 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * SUN":        "2026-11-22 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * fri-sun":    "2026-11-22 00:00 +0000; 2026-11-27 00:00 +0000; 2026-11-28 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * 5-7":        "2026-11-22 00:00 +0000; 2026-11-27 00:00 +0000; 2026-11-28 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * sun-tue":    "2026-11-22 00:00 +0000; 2026-11-23 00:00 +0000; 2026-11-24 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 * * */2":        "2026-11-22 00:00 +0000; 2026-11-24 00:00 +0000; 2026-11-26 00:00 +0000; 2026-11-28 00:00 +0000; 2026-11-29 00:00 +0000",
		"0 0 1 jan,Jul *":    "2027-01-01 00:00 +0000; 2027-07-01 00:00 +0000",
		"0 0 31 * *":         "2026-12-31 00:00 +0000; 2027-01-31 00:00 +0000; 2027-03-31 00:00 +0000",
		// a day of the month and one of the week: either
		"0 0 1 * mon": "2026-11-23 00:00 +0000; 2026-11-30 00:00 +0000; 2026-12-01 00:00 +0000",
		// but both where one of them begins with a star
		"0 0 */2 * mon": "2026-11-23 00:00 +0000; 2026-12-07 00:00 +0000",
		"0 0 ? * mon":   "2026-11-23 00:00 +0000; 2026-11-30 00:00 +0000",
		"0 0 29 2 *":    "2028-02-29 00:00 +0000; 2032-02-29 00:00 +0000",
		"0 0 29 2 */7":  "2032-02-29 00:00 +0000; 2060-02-29 00:00 +0000; 2088-02-29 00:00 +0000; 2128-02-29 00:00 +0000",
		"0 0 30 2 mon":  "2027-02-01 00:00 +0000; 2027-02-08 00:00 +0000",
		"@hourly":       "2026-11-21 13:00 +0000; 2026-11-21 14:00 +0000",
		"@Daily":        "2026-11-22 00:00 +0000",
		"@weekly":       "2026-11-22 00:00 +0000; 2026-11-29 00:00 +0000",
		"@monthly":      "2026-12-01 00:00 +0000",
		"@annually":     "2027-01-01 00:00 +0000",
		" 0\t6 * * *  ": "2026-11-22 06:00 +0000",
	} {
		s := parse(t, calendar.Cron, expression, "UTC", "2026-11-21 12:30")
		same(t, expression, from(s, at(t, "2026-11-21 12:30:30"), strings.Count(want, ";")+1), want)
	}
}

// D-34: what could be read in two ways, or never comes, is refused.
func TestExpressionsRefused(t *testing.T) {
	for _, expression := range []string{
		"", " ", "*", "* * * *", "* * * * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 */2", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *",
		"* * * 13 *", "* * * * 8", "-1 * * * *", "1- * * * *", "-5 * * * *", "1-2-3 * * * *", "5-1 * * * *", "* 22-2 * * *", "* * * * sat-mon", "*/0 * * * *", "*/60 * * * *",
		"*/ * * * *", "*/2/3 * * * *", "*-5 * * * *", "** * * * *", "*5 * * * *", ", * * * *", "1, * * * *", ",1 * * * *", "1,,2 * * * *", "+1 * * * *", "1.5 * * * *", "0x1 * * * *",
		"001 * * * *", "١ * * * *", "* * * feb1 *", "* * * anf *", "* * * * su", "* * * * sunday", "jan * * * *", "? * * * *", "* ? * * *", "* * ?/2 * *", "* * L * *", "* * 15W * *",
		"* * * * 5#2", "TZ=", "TZ=UTC", "TZ=UTC * * * * *", "CRON_TZ=UTC * * * * *", "@", "@every 5m", "@reboot", "@daily x", "H * * * *", "* * * * *\x00", strings.Repeat("1,", 300) + "1 * * * *",
	} {
		if _, err := calendar.Parse(calendar.Cron, expression, "UTC", at(t, "2026-11-21")); err == nil {
			t.Errorf("%q is taken", expression)
		}
	}
	for _, never := range []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 2 ?"} {
		if _, err := calendar.Parse(calendar.Cron, never, "UTC", at(t, "2026-11-21")); !errors.Is(err, calendar.ErrNever) {
			t.Errorf("%q: %v", never, err)
		}
	}
}

// D-34: a fixed time in the hour that is left out comes right after it, and one in the hour that
// comes twice comes once. With a star it goes by the clock on the wall.
func TestSummerTime(t *testing.T) {
	for _, c := range []struct{ name, zone, expression, after, want string }{
		{"Berlin springs: in the gap", "Europe/Berlin", "30 2 * * *", "2026-03-28 12:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 02:30 +0200"},
		{"Berlin springs: two in the gap are one", "Europe/Berlin", "0,30 2 * * *", "2026-03-28 12:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 02:00 +0200"},
		{"Berlin springs: in the gap and after it are one", "Europe/Berlin", "0 2,3 * * *", "2026-03-28 12:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 02:00 +0200"},
		{"Berlin springs: right after the gap", "Europe/Berlin", "0 3 * * *", "2026-03-28 12:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 03:00 +0200"},
		{"Berlin springs: only that day", "Europe/Berlin", "15 2 29 3 *", "2026-03-28 12:00 +0100", "2026-03-29 03:00 +0200; 2027-03-29 02:15 +0200"},
		{"Berlin springs: another day", "Europe/Berlin", "15 2 * * mon", "2026-03-28 12:00 +0100", "2026-03-30 02:15 +0200"},
		{"Berlin springs: any hour", "Europe/Berlin", "30 * * * *", "2026-03-29 00:45 +0100", "2026-03-29 01:30 +0100; 2026-03-29 03:30 +0200"},
		{"Berlin springs: any minute", "Europe/Berlin", "*/30 2 * * *", "2026-03-28 12:00 +0100", "2026-03-30 02:00 +0200"},
		{"Berlin falls back: the first time only", "Europe/Berlin", "30 2 * * *", "2026-10-24 12:00 +0200", "2026-10-25 02:30 +0200; 2026-10-26 02:30 +0100"},
		{"Berlin falls back: asked in between", "Europe/Berlin", "30 2 * * *", "2026-10-25 02:10 +0100", "2026-10-26 02:30 +0100"},
		{"Berlin falls back: any hour", "Europe/Berlin", "30 * * * *", "2026-10-25 01:45 +0200", "2026-10-25 02:30 +0200; 2026-10-25 02:30 +0100; 2026-10-25 03:30 +0100"},
		{"Berlin falls back: any minute", "Europe/Berlin", "*/30 2 * * *", "2026-10-25 01:45 +0200", "2026-10-25 02:00 +0200; 2026-10-25 02:30 +0200; 2026-10-25 02:00 +0100; 2026-10-25 02:30 +0100; 2026-10-26 02:00 +0100"},
		{"New York springs", "America/New_York", "0 2 * * *", "2026-03-07 12:00 -0500", "2026-03-08 03:00 -0400; 2026-03-09 02:00 -0400"},
		{"New York falls back", "America/New_York", "0 1 * * *", "2026-10-31 12:00 -0400", "2026-11-01 01:00 -0400; 2026-11-02 01:00 -0500"},
		{"Lord Howe springs by half an hour", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00 +1030", "2026-10-04 02:30 +1100; 2026-10-05 02:15 +1100"},
		{"Lord Howe springs: outside of the gap", "Australia/Lord_Howe", "45 2 * * *", "2026-10-03 12:00 +1030", "2026-10-04 02:45 +1100"},
		{"Lord Howe falls back by half an hour", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04 12:00 +1100", "2026-04-05 01:45 +1100; 2026-04-06 01:45 +1030"},
		{"Lord Howe falls back: any hour", "Australia/Lord_Howe", "45 * * * *", "2026-04-05 00:50 +1100", "2026-04-05 01:45 +1100; 2026-04-05 01:45 +1030; 2026-04-05 02:45 +1030"},
		{"Sao Paulo has no midnight", "America/Sao_Paulo", "0 0 * * *", "2018-11-03 12:00 -0300", "2018-11-04 01:00 -0200; 2018-11-05 00:00 -0200"},
		{"Sao Paulo has two times before midnight", "America/Sao_Paulo", "30 23 * * *", "2018-02-17 12:00 -0200", "2018-02-17 23:30 -0200; 2018-02-18 23:30 -0300"},
		{"Sao Paulo has no summer time any more", "America/Sao_Paulo", "0 0 * * *", "2026-11-03 12:00 -0300", "2026-11-04 00:00 -0300"},
		{"Samoa left a day out", "Pacific/Apia", "0 6 * * *", "2011-12-29 05:00 -1000", "2011-12-29 06:00 -1000; 2011-12-31 06:00 +1400"},
		{"Samoa left a Friday out", "Pacific/Apia", "0 6 * * fri", "2011-12-24 05:00 -1000", "2012-01-06 06:00 +1400"},
		{"Samoa, any hour", "Pacific/Apia", "0 * * * *", "2011-12-29 22:30 -1000", "2011-12-29 23:00 -1000; 2011-12-31 00:00 +1400"},
		{"Kathmandu is fifteen minutes off", "Asia/Kathmandu", "0 6 * * *", "2026-11-21 00:00 +0000", "2026-11-21 06:00 +0545"},
		{"Dublin's winter time is the odd one", "Europe/Dublin", "30 1 * * *", "2026-03-28 12:00 +0000", "2026-03-29 02:00 +0100; 2026-03-30 01:30 +0100"},
		{"Casablanca has summer time but in Ramadan", "Africa/Casablanca", "30 2 * * *", "2024-04-13 12:00 +0000", "2024-04-14 03:00 +0100; 2024-04-15 02:30 +0100"},
		{"Berlin at the end of a leap year", "Europe/Berlin", "0 6 * * *", "2040-12-30 12:00 +0100", "2040-12-31 06:00 +0100; 2041-01-01 06:00 +0100"},
		{"Berlin, the year after a leap year's end", "Europe/Berlin", "0 6 29 3 *", "2040-12-31 12:00 +0100", "2041-03-29 06:00 +0100"},
		{"far from now", "Europe/Berlin", "30 2 * * *", "2200-03-29 12:00 +0100", "2200-03-30 03:00 +0200"},
	} {
		s := parse(t, calendar.Cron, c.expression, c.zone, "2000-01-01")
		same(t, c.name, from(s, at(t, c.after), strings.Count(c.want, ";")+1), c.want)
	}
}

// D-34: intervals go on by elapsed time from when they were made.
func TestIntervals(t *testing.T) {
	s := parse(t, calendar.Interval, "90m", "Europe/Berlin", "2026-10-24 23:45:10")
	same(t, "over summer time's end", from(s, at(t, "2026-10-24 23:45:10"), 3), "2026-10-25 02:15 +0100; 2026-10-25 03:45 +0100; 2026-10-25 05:15 +0100")
	same(t, "before it was made", from(s, at(t, "1970-01-01"), 1), "2026-10-25 02:15 +0100")
	same(t, "in the far future", from(s, at(t, "8000-01-01"), 1), "8000-01-01 02:15 +0100")
	for _, bad := range []string{"", "15", "59s", "0", "-15m", "1m0.5s", "8785h", "1d", "9999999999h", "NaN", "1e3m", "m"} {
		if _, err := calendar.Parse(calendar.Interval, bad, "UTC", at(t, "2026-11-21")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// D-34: a moment is one, with its offset or as the next time of day.
func TestOnce(t *testing.T) {
	for _, c := range []struct{ value, zone, created, want string }{
		{"2026-11-22T17:00:00+01:00", "Europe/Berlin", "2026-11-21", "2026-11-22T17:00:00+01:00"},
		{"2026-11-22T16:00:00.9Z", "Europe/Berlin", "2026-11-21", "2026-11-22T17:00:00+01:00"},
		{"17:00", "Europe/Berlin", "2026-11-21 12:00", "2026-11-21T17:00:00+01:00"},
		{"17:00", "Europe/Berlin", "2026-11-21 16:00", "2026-11-22T17:00:00+01:00"},
		{"02:30", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29T03:00:00+02:00"},
		{"02:30", "Europe/Berlin", "2026-10-25 01:00", "2026-10-26T02:30:00+01:00"},
	} {
		s := parse(t, calendar.Once, c.value, c.zone, c.created)
		next, ok := s.Next(at(t, c.created))
		if have := next.Format(time.RFC3339); have != c.want || !ok || s.Value() != c.want {
			t.Errorf("%s in %s after %s: have %s, value %s, want %s", c.value, c.zone, c.created, have, s.Value(), c.want)
		}
		if again, ok := s.Next(next); ok {
			t.Errorf("%s comes again at %s", c.value, again)
		}
		if again := parse(t, calendar.Once, s.Value(), c.zone, c.created); again.Value() != s.Value() {
			t.Errorf("%s is read as %s", s.Value(), again.Value())
		}
	}
	for _, bad := range []string{"", "5pm", "7:00", "24:00", "17:60", "17:00:00", "tomorrow 17:00", "2026-11-22", "2026-11-22T17:00:00", "2026-02-30T00:00:00Z", "2026-11-20T00:00:00Z", "9999-01-01T00:00:00Z", "2026-11-22T25:00:00Z"} {
		if _, err := calendar.Parse(calendar.Once, bad, "UTC", at(t, "2026-11-21")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// D-34: a zone is one of the database, by its name.
func TestZones(t *testing.T) {
	for _, good := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"} {
		if _, err := calendar.Zone(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "Local", "local/../UTC", "../UTC", "/etc/localtime", "Europe", "Mars/Olympus", "Europe\\Berlin", "Europe/Berlin\x00", strings.Repeat("a", 65), "tzdata.zi", "+01:00"} {
		if _, err := calendar.Zone(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := calendar.Parse("weekly", "x", "UTC", at(t, "2026-11-21")); err == nil {
		t.Error("an unknown kind is taken")
	}
	if _, err := calendar.Parse(calendar.Cron, "* * * * *", "UTC", time.Time{}); err == nil {
		t.Error("the year 1 is taken")
	}
	if next, ok := (calendar.Spec{}).Next(at(t, "2026-11-21")); ok {
		t.Errorf("the zero value is due at %s", next)
	}
}

// D-34: what was missed is run once or not at all; the clock may jump either way.
func TestDue(t *testing.T) {
	const grace = 5 * time.Minute
	for _, c := range []struct {
		name, expression, last, now string
		policy                      calendar.Policy
		run, skip, missed           string
	}{
		{"not yet", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 05:59:59", calendar.RunOnce, "", "", ""},
		{"on time", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 06:00", calendar.RunOnce, "2026-11-21 06:00", "", ""},
		{"on time, skipping", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 06:05", calendar.Skip, "2026-11-21 06:00", "", ""},
		{"one missed", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 12:00", calendar.RunOnce, "2026-11-21 06:00", "", ""},
		{"one missed, skipping", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 06:05:01", calendar.Skip, "", "2026-11-21 06:00", ""},
		{"many missed", "0 6 * * *", "2026-11-10 06:00", "2026-11-21 12:00", calendar.RunOnce, "2026-11-21 06:00", "", "2026-11-11 06:00"},
		{"many missed, skipping", "0 6 * * *", "2026-11-10 06:00", "2026-11-21 12:00", calendar.Skip, "", "2026-11-21 06:00", "2026-11-11 06:00"},
		{"many missed, the last on time", "0 6 * * *", "2026-11-10 06:00", "2026-11-21 06:01", calendar.Skip, "2026-11-21 06:00", "", "2026-11-11 06:00"},
		{"the clock is years ahead", "* * * * *", "2026-11-21 06:00", "8999-11-21 12:00:30", calendar.RunOnce, "8999-11-21 12:00", "", "2026-11-21 06:01"},
		{"the clock went back", "* * * * *", "2026-11-21 06:00", "2026-11-21 05:00", calendar.RunOnce, "", "", ""},
		{"the clock says 1970", "* * * * *", "2026-11-21 06:00", "1970-01-01 00:00", calendar.RunOnce, "", "", ""},
		{"no policy skips", "0 6 * * *", "2026-11-20 06:00", "2026-11-21 12:00", "", "", "2026-11-21 06:00", ""},
	} {
		s := parse(t, calendar.Cron, c.expression, "UTC", "2026-11-01")
		due := s.Due(at(t, c.last), at(t, c.now), c.policy, grace)
		for what, pair := range map[string][2]string{"run": {text(due.Run), c.run}, "skip": {text(due.Skip), c.skip}, "missed": {text(due.Missed), c.missed}} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: have %q, want %q", c.name, what, pair[0], pair[1])
			}
		}
		if next, _ := s.Next(at(t, c.now)); !due.Next.Equal(next) {
			t.Errorf("%s: next: have %s, want %s", c.name, due.Next, next)
		}
	}
	for text, want := range map[string]calendar.Policy{"": calendar.RunOnce, "run-once": calendar.RunOnce, "skip": calendar.Skip, "Skip": "", "all": ""} {
		if have, err := calendar.ParsePolicy(text); have != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, have, err)
		}
	}
}

func text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}
