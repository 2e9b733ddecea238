package person

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Desktop stands in [Operator.Notify] for the notices of the terminal and the desktop before
// the person. It is no face: nothing is decided there.
const Desktop = "desktop"

// notified are the places that a person may name to be told at.
func notified() []string {
	return []string{string(Slack), string(Discord), string(Telegram), Desktop}
}

// checkNotices refuses places and hours that cannot be kept.
func (o Operator) checkNotices() error {
	for _, place := range o.Notify {
		if !slices.Contains(notified(), place) {
			return fmt.Errorf("notify: %.40q is not a place to be told at: use %s", place, strings.Join(notified(), ", "))
		}
	}
	if o.QuietHours == "" && o.Zone != "" {
		return errors.New("zone: it is the time zone of quiet_hours, which are not set")
	}
	if o.QuietHours == "" {
		return nil
	}
	_, err := o.hours()
	return err
}

// hours are a part of each day, in minutes after midnight in a time zone. It may go over
// midnight.
type hours struct {
	from, until int
	zone        *time.Location
}

func (o Operator) hours() (hours, error) {
	from, until, found := strings.Cut(o.QuietHours, "-")
	begin, err := minutes(from)
	end, endErr := minutes(until)
	if !found || err != nil || endErr != nil || begin == end {
		return hours{}, fmt.Errorf("quiet_hours: %.40q is not a part of a day: write it as \"22:00-07:00\"", o.QuietHours)
	}
	zone := time.Local
	if o.Zone != "" {
		if zone, err = time.LoadLocation(o.Zone); err != nil || o.Zone == "Local" {
			return hours{}, fmt.Errorf("zone: %.60q is not a time zone of this machine: write one as \"Europe/Berlin\"", o.Zone)
		}
	}
	return hours{begin, end, zone}, nil
}

// minutes reads a time of the day. There is one way to write each.
func minutes(text string) (int, error) {
	at, err := time.Parse("15:04", text)
	if err == nil && at.Format("15:04") != text {
		err = errors.New("two digits each")
	}
	return at.Hour()*60 + at.Minute(), err
}

func (h hours) holds(now time.Time) bool {
	now = now.In(h.zone)
	minute := now.Hour()*60 + now.Minute()
	if h.from < h.until {
		return h.from <= minute && minute < h.until
	}
	return h.from <= minute || minute < h.until
}

// Wants tells whether the person is to be told at a place, a service or [Desktop], at this
// moment. Whoever set nothing is told everywhere and always: a notice too many is better
// than a question that nobody sees. What is not told waits all the same.
func (p Person) Wants(place string, now time.Time) bool {
	if p.rights.Notify != nil && !slices.Contains(p.rights.Notify, place) {
		return false
	}
	quiet, err := p.rights.hours()
	return p.rights.QuietHours == "" || err != nil || !quiet.holds(now)
}
