package quantity

import "time"

// secondsOfDay is how long a day is where all are equally long.
const secondsOfDay = 24 * 60 * 60

// parseDay reads a date as 2026-05-18, and counts the days from 1970 on.
func parseDay(s string) (int, bool) {
	if len(s) != len(time.DateOnly) {
		return 0, false
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, false
	}
	return dayOf(day), true
}

// days reads a date, or a date with a time and a zone as RFC 3339 has it. It gives the day that is
// written, and the day that it is in Greenwich then.
func days(text string) (written, greenwich int, ok bool) {
	if day, is := parseDay(text); is {
		return day, day, true
	}
	if len(text) > len(time.RFC3339Nano) {
		return 0, 0, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, 0, false
	}
	written, ok = parseDay(text[:len(time.DateOnly)])
	return written, dayOf(at.UTC()), ok
}

func dayOf(at time.Time) int {
	seconds := at.Unix()
	if seconds < 0 {
		seconds -= secondsOfDay - 1
	}
	return int(seconds / secondsOfDay)
}
