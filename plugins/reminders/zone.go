package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxOnsets = 1000 // listed changes of one observance
	daysAWeek = 7
	basicTime = "20060102T150405"
	basicDay  = "20060102"
)

// zoned says when a wall clock of the zone shows local; local itself is in
// UTC. ok is false where nothing tells what the zone is.
//
// A zone that the world knows by that name is taken from the IANA database, also with what programs
// put before it. Any other is read from the calendar's own VTIMEZONE.
func zoned(local time.Time, tzid string, calendar *component) (t time.Time, ok bool) {
	for name := strings.TrimPrefix(tzid, "/"); name != ""; {
		if zone, err := time.LoadLocation(name); err == nil && name != "Local" {
			y, m, d := local.Date()
			return time.Date(y, m, d, local.Hour(), local.Minute(), local.Second(), 0, zone), true
		}
		_, name, _ = strings.Cut(name, "/")
	}
	for _, zone := range calendar.children("VTIMEZONE") {
		if zone.text("TZID") == tzid {
			if offset, ok := zone.offsetAt(local); ok {
				return local.Add(-offset).In(time.FixedZone("", int(offset/time.Second))), true
			}
		}
	}
	return time.Time{}, false
}

// offsetAt is what a VTIMEZONE adds to UTC at a wall clock's time: that of the
// observance that began last, or what was before the first.
func (c *component) offsetAt(local time.Time) (time.Duration, bool) {
	var last, first time.Time
	var offset, before time.Duration
	found := false
	for _, o := range append(c.children("STANDARD"), c.children("DAYLIGHT")...) {
		to, okTo := readOffset(o.text("TZOFFSETTO"))
		from, okFrom := readOffset(o.text("TZOFFSETFROM"))
		start, err := time.Parse(basicTime, strings.TrimSpace(o.text("DTSTART")))
		if err != nil || !okTo || !okFrom {
			return 0, false
		}
		if !found || start.Before(first) {
			first, before = start, from
		}
		if onset, ok := o.lastOnset(start, local); ok && !onset.Before(last) {
			last, offset = onset, to
		}
		found = true
	}
	if last.IsZero() {
		return before, found
	}
	return offset, found
}

// lastOnset is when an observance last began, at or before local.
func (c *component) lastOnset(start, local time.Time) (time.Time, bool) {
	onsets := []time.Time{start}
	for i, p := range c.parts {
		if i >= maxOnsets || !p.is("RDATE") {
			continue
		}
		if rdate, err := parseProperty(p.raw); err == nil {
			for _, value := range strings.SplitN(rdate.value, ",", maxOnsets) {
				if t, err := time.Parse(basicTime, value); err == nil {
					onsets = append(onsets, t)
				}
			}
		}
	}
	if rule, ok := c.get("RRULE"); ok {
		onsets = append(onsets, yearly(rule.value, start, local)...)
	}
	onsets = slices.DeleteFunc(onsets, func(t time.Time) bool { return t.After(local) })
	if len(onsets) == 0 {
		return time.Time{}, false
	}
	return slices.MaxFunc(onsets, time.Time.Compare), true
}

// yearly gives the onsets around local of a rule that comes once a year, as those of
// time zones do. It gives none for any other rule.
func yearly(rule string, start, local time.Time) []time.Time {
	parts := map[string]string{}
	for field := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		key, value, _ := strings.Cut(field, "=")
		parts[key] = value
	}
	if parts["FREQ"] != "YEARLY" || parts["INTERVAL"] != "" && parts["INTERVAL"] != "1" || parts["COUNT"] != "" {
		return nil
	}
	until := local
	if t, err := time.Parse(basicTime, strings.TrimSuffix(parts["UNTIL"], "Z")); err == nil && t.Before(until) {
		until = t
	}
	var onsets []time.Time
	for year := until.Year() - 1; year <= until.Year(); year++ {
		if t, ok := onsetIn(year, parts, start); ok && !t.Before(start) && !t.After(until.Add(24*time.Hour)) {
			onsets = append(onsets, t)
		}
	}
	return onsets
}

func onsetIn(year int, parts map[string]string, start time.Time) (time.Time, bool) {
	month := start.Month()
	if value := parts["BYMONTH"]; value != "" {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 12 {
			return time.Time{}, false
		}
		month = time.Month(n)
	}
	day := start.Day()
	if value := parts["BYDAY"]; value != "" {
		var ok bool
		if day, ok = dayOf(year, month, value, parts["BYMONTHDAY"]); !ok {
			return time.Time{}, false
		}
	}
	return time.Date(year, month, day, start.Hour(), start.Minute(), start.Second(), 0, time.UTC), true
}

// dayOf is the day of the month that 2SU, -1SU, or SU among days, means.
func dayOf(year int, month time.Month, byDay, among string) (int, bool) {
	weekday := slices.Index([]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}, byDay[max(0, len(byDay)-2):])
	if weekday < 0 {
		return 0, false
	}
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	first := 1 + (weekday-int(last.AddDate(0, 0, 1-last.Day()).Weekday())+daysAWeek)%daysAWeek
	if nth := byDay[:len(byDay)-2]; nth != "" {
		n, err := strconv.Atoi(nth)
		day := first + (n-1)*daysAWeek
		if n < 0 {
			day = first + ((last.Day()-first)/daysAWeek+n+1)*daysAWeek
		}
		return day, err == nil && n != 0 && day >= 1 && day <= last.Day()
	}
	for day := first; day <= last.Day(); day += daysAWeek {
		if among == "" || slices.Contains(strings.Split(among, ","), strconv.Itoa(day)) {
			return day, true
		}
	}
	return 0, false
}

// readOffset reads +0100 or -013015.
func readOffset(text string) (time.Duration, bool) {
	var h, m, s int
	if len(text) < 5 || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	n, err := fmt.Sscanf(text[1:]+"00", "%2d%2d%2d", &h, &m, &s)
	if err != nil || n != 3 || h > 23 || m > 59 || s > 59 || h < 0 || m < 0 || s < 0 {
		return 0, false
	}
	offset := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}
