package leasing

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/session"
)

// SweepEvery is how long it takes until the next sweep.
const SweepEvery = sweepEvery

// Unused are credentials of which one was never leased.
func Unused(name string) *Credentials {
	return &Credentials{holds: []*hold{{config: config.Credential{Name: name}}}}
}

// Use asks for what the first credential is made of, as the proxy does.
func (l *Credentials) Use(ctx context.Context) error {
	_, err := l.holds[0].material(ctx)
	return err
}

// Minted are credentials of which one is minted and held, swept until they are closed.
func Minted(ctx context.Context, broker *lease.Broker, recorder nacre.Recorder, held *lease.Lease) *Credentials {
	c := config.Credential{Name: held.Name(), Mint: lease.Minting{Kind: lease.Vault}}
	l := &Credentials{broker: broker, session: &session.Session{Recorder: recorder}}
	l.holds = []*hold{{of: l, config: c, leases: []*lease.Lease{held}}}
	l.sweepLater(ctx, []config.Credential{c})
	return l
}
