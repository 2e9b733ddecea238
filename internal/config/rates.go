package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// maxRate is the most calls in a minute that can be set.
const maxRate = 60_000

// Rates are how many calls there may be in a minute, of all tools together (K-35). They are those
// of one principal, such as an agent, in all of its sessions, of a group, and of one session. Zero
// says nothing.
type Rates struct {
	Principal int `toml:"principal"`
	Group     int `toml:"group"`
	Session   int `toml:"session"`
}

// RatesOf are the rates of a group's calls, beside those of each tool.
func (c Config) RatesOf(group nacre.Group) policy.Rates {
	own := c.Groups[string(group)].Rates
	return policy.Rates{
		Principal: perMinute(cmp.Or(own.Principal, c.Rates.Principal)), Group: perMinute(cmp.Or(own.Group, c.Rates.Group)),
		Session: perMinute(cmp.Or(own.Session, c.Rates.Session)),
	}
}

func perMinute(calls int) nacre.RateLimit {
	if calls == 0 {
		return nacre.RateLimit{}
	}
	return nacre.RateLimit{Calls: calls, Window: time.Minute}
}

func (r Rates) check(where string) error {
	for _, one := range []struct {
		key   string
		value int
	}{{"principal", r.Principal}, {"group", r.Group}, {"session", r.Session}} {
		if one.value < 0 || one.value > maxRate {
			return fmt.Errorf("%s %s = %d: use 1 to %d calls a minute", where, one.key, one.value, maxRate)
		}
	}
	return nil
}
