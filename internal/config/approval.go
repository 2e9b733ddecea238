package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/tripwire"
)

const (
	// DefaultHold is how long a connection waits for a person's answer: the usual
	// clients give up later than that.
	DefaultHold = 10 * time.Second
	// maxHold is the most that the config may set.
	maxHold = time.Minute
)

// Approval is how questions to a person are dealt with.
type Approval struct {
	// Hold is how long a connection to a host that is not listed waits for a person's answer before
	// it is refused, such as "10s". "0s" refuses it at once. Where it is not set, it is 10 s for
	// sessions that somebody watches, and nothing for others.
	Hold string `toml:"hold"`
	// Quiet tells nobody who looks elsewhere that a question waits.
	Quiet bool `toml:"quiet"`
}

func (a Approval) check() error {
	if d, err := time.ParseDuration(cmp.Or(a.Hold, "0s")); err != nil || d < 0 || d > maxHold {
		return fmt.Errorf("[approval] hold = %q: write a time from 0s to %v, such as \"10s\"", a.Hold, maxHold)
	}
	return nil
}

// Hold is how long a connection waits, where somebody watches the session or not.
// None does where a refused host ends the session.
func (c Config) Hold(watched bool) time.Duration {
	reactions, err := c.Reactions()
	switch {
	case err != nil || reactions[tripwire.DeniedEgress] == tripwire.Contain:
		return 0
	case c.Approval.Hold != "":
		d, err := time.ParseDuration(c.Approval.Hold)
		if err != nil {
			return 0 // the config was refused before anything began
		}
		return d
	case watched:
		return DefaultHold
	}
	return 0
}
