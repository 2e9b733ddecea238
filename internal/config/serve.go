package config

import (
	"cmp"
	"fmt"
	"time"
)

// defaultIdle is how many seconds a conversation may rest and still go on (D-36).
const defaultIdle = 900

// Serve bounds what `nacre serve` does for each group.
type Serve struct {
	// Sessions at once for each group; 0 means 3 (D-33).
	Sessions int `toml:"sessions"`
	// IdleSeconds is how long a conversation may rest and still go on; 0 means 900 (D-36).
	IdleSeconds int `toml:"idle_seconds"`
}

func (c Serve) check() error {
	if c.Sessions < 0 || c.Sessions > 64 {
		return fmt.Errorf("[serve] sessions = %d: use 1 to 64", c.Sessions)
	}
	if c.IdleSeconds < 0 || c.IdleSeconds > 30*86400 {
		return fmt.Errorf("[serve] idle_seconds = %d: use 1 to %d", c.IdleSeconds, 30*86400)
	}
	return nil
}

// Idle is how long an agent may be silent before its visit ends.
func (c Serve) Idle() time.Duration {
	return time.Duration(cmp.Or(c.IdleSeconds, defaultIdle)) * time.Second
}
