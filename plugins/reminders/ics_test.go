package main_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	reminders "github.com/nacre-dev/nacre/plugins/reminders"
)

// What is read is written again as it was, and what is folded can be unfolded.
func FuzzCalendar(f *testing.F) {
	f.Add(foreign)
	f.Add("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n")
	f.Add("BEGIN:VCALENDAR\nX;A=\"b:c\";D:e\n  f\nEND:VCALENDAR")
	f.Fuzz(func(t *testing.T, text string) {
		if calendar, err := reminders.ParseCalendar(text); err == nil {
			written := calendar.String()
			again, err := reminders.ParseCalendar(written)
			if err != nil || again.String() != written {
				t.Fatalf("%q: %v", written, err)
			}
			if clean := strings.TrimPrefix(text, "\ufeff"); !strings.HasPrefix(written, strings.TrimRight(clean, "\n")) && !strings.Contains(clean, "\r") && strings.HasSuffix(clean, "\n") {
				t.Fatalf("have %q of %q", written, text)
			}
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n") {
			return
		}
		folded := reminders.Fold("SUMMARY:" + text)
		for line := range strings.SplitSeq(strings.TrimSuffix(folded, "\r\n"), "\r\n") {
			if len(line) > 75 {
				t.Fatalf("a line of %d octets", len(line))
			}
		}
		if have := strings.ReplaceAll(folded, "\r\n ", ""); have != "SUMMARY:"+text+"\r\n" {
			t.Fatalf("have %q", have)
		}
		if have := reminders.Unescape(reminders.Escape(text)); have != text {
			t.Fatalf("have %q of %q", have, text)
		}
	})
}

// A zone that only the calendar knows is computed from its rules.
func TestZones(t *testing.T) {
	zone := func(observances string) string {
		return "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:Own\n" + observances + "END:VTIMEZONE\nEND:VCALENDAR\n"
	}
	observance := func(name, start, from, to, more string) string {
		return "BEGIN:" + name + "\nDTSTART:" + start + "\nTZOFFSETFROM:" + from + "\nTZOFFSETTO:" + to + "\n" + more + "END:" + name + "\n"
	}
	berlin := zone(observance("STANDARD", "19961027T030000", "+0200", "+0100", "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\n") +
		observance("DAYLIGHT", "19810329T020000", "+0100", "+0200", "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\n"))
	old := zone(observance("STANDARD", "20071104T020000", "-0400", "-0500", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=SU;BYMONTHDAY=1,2,3,4,5,6,7\n") +
		observance("DAYLIGHT", "20070311T020000", "-0500", "-0400", "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=2SU\n"))
	ended := zone(observance("STANDARD", "20000101T000000", "+0200", "+0300", "") +
		observance("DAYLIGHT", "20000401T000000", "+0300", "+0400", "RRULE:FREQ=YEARLY;UNTIL=20050401T000000Z\nRDATE:20080401T000000,20090401T000000\n"))
	for _, c := range []struct{ name, calendar, local, want string }{
		{"winter", berlin, "2026-01-15T12:00:00", "+01:00"}, {"summer", berlin, "2026-07-15T12:00:00", "+02:00"},
		{"before the last Sunday of March", berlin, "2026-03-28T12:00:00", "+01:00"}, {"on it", berlin, "2026-03-29T12:00:00", "+02:00"},
		{"before the last Sunday of October", berlin, "2026-10-25T01:00:00", "+02:00"}, {"after it", berlin, "2026-10-25T04:00:00", "+01:00"},
		{"before the rules began", berlin, "1970-01-01T00:00:00", "+01:00"},
		{"the first Sunday as a list of days", old, "2026-11-01T03:00:00", "-05:00"}, {"the second Sunday", old, "2026-03-08T03:00:00", "-04:00"}, {"a day earlier", old, "2026-03-07T12:00:00", "-05:00"},
		{"the rule has ended", ended, "2026-07-01T00:00:00", "+04:00"}, {"a listed date", ended, "2008-04-02T00:00:00", "+04:00"},
		{"no offset", zone(observance("STANDARD", "20000101T000000", "x", "+0300", "")), "2026-07-01T00:00:00", ""},
		{"no rules at all", zone(""), "2026-07-01T00:00:00", ""},
		{"a rule of another kind", zone(observance("STANDARD", "20000101T000000", "+0000", "+0300", "RRULE:FREQ=SECONDLY\n")), "2026-07-01T00:00:00", "+03:00"},
		{"a rule that is none", zone(observance("STANDARD", "20000101T000000", "+0000", "+0300", "RRULE:FREQ=YEARLY;BYDAY=9999999999SU;BYMONTH=13\n")), "2026-07-01T00:00:00", "+03:00"},
	} {
		calendar, err := reminders.ParseCalendar(c.calendar)
		if err != nil {
			t.Fatal(err)
		}
		local, err := time.Parse("2006-01-02T15:04:05", c.local)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := reminders.Zoned(local, "Own", calendar.Calendar())
		have := ""
		if ok {
			have = at.Format("-07:00")
		}
		if have != c.want || ok && at.Format("2006-01-02T15:04:05") != c.local {
			t.Errorf("%s: have %s, want %s", c.name, at, c.want)
		}
	}
	for _, tzid := range []string{"Local", "", "../../etc/passwd", "Nowhere/At/All", "/"} {
		calendar, err := reminders.ParseCalendar(zone(""))
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := reminders.Zoned(time.Time{}, tzid, calendar.Calendar()); ok {
			t.Errorf("%q: have %v", tzid, at)
		}
	}
}
