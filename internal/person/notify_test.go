package person_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/person"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

// M-46: a person is told at the places and in the hours of their own, in their time zone, over
// midnight and over a change of the clocks. Whoever set nothing is told always.
func TestAPersonSaysWhereAndWhenToBeTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operator person.Operator
		place    string
		now      string
		want     bool
	}{
		"nothing set":                      {person.Operator{}, "telegram", "2026-11-28T03:00:00Z", true},
		"nowhere":                          {person.Operator{Notify: []string{}}, "telegram", "2026-11-28T12:00:00Z", false},
		"a place that is named":            {person.Operator{Notify: []string{"telegram"}}, "telegram", "2026-11-28T12:00:00Z", true},
		"a place that is not":              {person.Operator{Notify: []string{"telegram"}}, person.Desktop, "2026-11-28T12:00:00Z", false},
		"before the night":                 {person.Operator{QuietHours: "22:00-07:00", Zone: "UTC"}, "slack", "2026-11-28T21:59:59Z", true},
		"the night begins":                 {person.Operator{QuietHours: "22:00-07:00", Zone: "UTC"}, "slack", "2026-11-28T22:00:00Z", false},
		"after midnight":                   {person.Operator{QuietHours: "22:00-07:00", Zone: "UTC"}, "slack", "2026-11-28T06:59:59Z", false},
		"the night ends":                   {person.Operator{QuietHours: "22:00-07:00", Zone: "UTC"}, "slack", "2026-11-28T07:00:00Z", true},
		"a siesta":                         {person.Operator{QuietHours: "13:00-15:00", Zone: "UTC"}, "discord", "2026-11-28T14:00:00Z", false},
		"not in it":                        {person.Operator{QuietHours: "13:00-15:00", Zone: "UTC"}, "discord", "2026-11-28T23:00:00Z", true},
		"in a zone":                        {person.Operator{QuietHours: "22:00-07:00", Zone: "Asia/Tokyo"}, "slack", "2026-11-28T14:00:00Z", false},
		"the night after the clocks go on": {person.Operator{QuietHours: "22:00-07:00", Zone: "Europe/Berlin"}, "slack", "2026-03-29T04:59:00Z", false},
		"the morning after it":             {person.Operator{QuietHours: "22:00-07:00", Zone: "Europe/Berlin"}, "slack", "2026-03-29T05:00:00Z", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.operator.Identities = []string{"telegram:42"}
			operators := person.Operators{"ada": c.operator}
			if err := operators.Check(); err != nil {
				t.Fatal(err)
			}
			p, err := person.Directory{Operators: operators}.Who("telegram:42")
			if err != nil {
				t.Fatal(err)
			}
			if have := p.Wants(c.place, at(t, c.now)); have != c.want {
				t.Errorf("have %v, want %v", have, c.want)
			}
		})
	}
}

// M-46: places and hours that cannot be kept are refused where the config is read.
func TestNoticesThatCannotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]person.Operator{
		`notify: "email"`:            {Notify: []string{"email"}},
		`notify: "terminal"`:         {Notify: []string{"terminal"}},
		`quiet_hours: "night"`:       {QuietHours: "night"},
		`quiet_hours: "7:00-22:00"`:  {QuietHours: "7:00-22:00"},
		`quiet_hours: "22:00-24:00"`: {QuietHours: "22:00-24:00"},
		`quiet_hours: "07:00-07:00"`: {QuietHours: "07:00-07:00"},
		`quiet_hours: "22:00-"`:      {QuietHours: "22:00-"},
		`zone: "Berlin"`:             {QuietHours: "22:00-07:00", Zone: "Berlin"},
		`zone: "../../etc/passwd"`:   {QuietHours: "22:00-07:00", Zone: "../../etc/passwd"},
		`zone: "Local"`:              {QuietHours: "22:00-07:00", Zone: "Local"},
		`zone: it is the time zone`:  {Zone: "UTC"},
	} {
		if err := (person.Operators{"ada": o}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, have %v", want, err)
		}
	}
}
