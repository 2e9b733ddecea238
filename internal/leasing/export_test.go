package leasing

import (
	"context"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/session"
)

// SweepEvery is how long it takes until the next sweep.
const SweepEvery = sweepEvery

// Unused are credentials of which one was never leased.
func Unused(name string) *Credentials {
	l := &Credentials{inst: awake(), session: &session.Session{Recorder: nowhere{}}}
	l.holds = []*hold{{of: l, config: config.Credential{Name: name}}}
	return l
}

// nowhere keeps no record.
type nowhere struct{ nacre.Recorder }

func (nowhere) Commit(context.Context, nacre.Record) error { return nil }

// Use asks for what the first credential is made of, as the proxy does.
func (l *Credentials) Use(ctx context.Context) error {
	_, err := l.holds[0].material(ctx, l.holds[0].gone)
	return err
}

// Minted are credentials of which one is minted and held, swept until they are closed.
func Minted(ctx context.Context, broker *lease.Broker, recorder nacre.Recorder, held *lease.Lease) *Credentials {
	c := config.Credential{Name: held.Name(), Mint: lease.Minting{Kind: lease.Vault}}
	l := &Credentials{inst: awake(), others: &Others{inst: awake(), broker: broker}, session: &session.Session{Recorder: recorder}}
	l.holds = []*hold{{of: l, config: c, leases: []*lease.Lease{held}}}
	l.sweepLater(ctx, []config.Credential{c})
	return l
}

// awake is an installation that has a clock and nothing else.
func awake() *installation.Installation {
	return &installation.Installation{Options: installation.Options{Now: time.Now}}
}

// Standing tells whether what was given since a moment is lost, of what is good until a time and was lost at another.
func Standing(until, lost time.Time) func(since, now time.Time) bool {
	s := &standing{until: until, lost: lost}
	return s.isLost
}

// LoggedIn tells whether logins, each made at a moment and good until another, are lost.
func LoggedIn(logins ...[2]time.Time) func(since, now time.Time, gone bool) bool {
	s := &standing{}
	for _, l := range logins {
		s.loggedIn(l[0], l[1])
	}
	return s.loginLost
}

// Written tells why the config of a folder does not give a credential to a group's sessions any more.
func Written(dir, group string) func(config.Credential) error {
	w := &written{dir: dir, group: group}
	return w.lost
}
