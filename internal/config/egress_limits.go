package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/egress"
)

// EgressLimits are what one session's connections may take (F-21). Zero means the
// default, never "none".
type EgressLimits struct {
	// Connections at once, and ConnectionsTotal in all of the session.
	Connections      int   `toml:"connections"`
	ConnectionsTotal int64 `toml:"connections_total"`
	// MiB that may be moved, both ways together.
	MiB int64 `toml:"mib"`
	// IdleSeconds is how long a connection may be silent in both directions.
	IdleSeconds int64 `toml:"idle_seconds"`
}

// The most that the config may set.
const (
	maxConnections = 4096
	maxTotal       = 10_000_000
	maxMiB         = 64 << 20
	maxIdleSeconds = 86400
)

func (l EgressLimits) check() error {
	return errors.Join(
		within("connections", int64(l.Connections), maxConnections), within("connections_total", l.ConnectionsTotal, maxTotal),
		within("mib", l.MiB, maxMiB), within("idle_seconds", l.IdleSeconds, maxIdleSeconds))
}

func within(key string, value, most int64) error {
	if value < 0 || value > most {
		return fmt.Errorf("[egress.limits] %s = %d: use 1 to %d, or leave it out", key, value, most)
	}
	return nil
}

// Proxy are the limits as the egress proxy takes them.
func (l EgressLimits) Proxy() egress.Limits {
	return egress.Limits{
		Connections: l.Connections, Total: l.ConnectionsTotal, Bytes: l.MiB << 20, Idle: time.Duration(l.IdleSeconds) * time.Second,
	}
}
