package leasing

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/machines"
)

// elsewhere tells the other machines of an installation of what is minted here.
type elsewhere struct {
	inst   *installation.Installation
	leases *machines.Leases
}

func listed(h lease.Held) machines.Lease {
	return machines.Lease{ID: h.ID, Session: h.Session, Group: h.Group, Credential: h.Credential}
}

// Minting implements [lease.Elsewhere].
func (e elsewhere) Minting(ctx context.Context, h lease.Held, atMost time.Duration) error {
	return e.leases.Begin(ctx, listed(h), atMost)
}

// Minted implements [lease.Elsewhere]. What nobody can revoke needs nothing to be revoked with.
func (e elsewhere) Minted(ctx context.Context, h lease.Held, handle nacre.Secret, atMost time.Duration) error {
	if at, err := find(e.inst, h.Credential); err != nil || !e.inst.Config.Credentials[at].Mint.Revocable() {
		handle = nacre.Secret{}
	}
	return e.leases.Keep(ctx, listed(h), handle, atMost)
}

// Ended implements [lease.Elsewhere].
func (e elsewhere) Ended(ctx context.Context, id string) error { return e.leases.End(ctx, id) }

// rested is how long what could not be taken back is left alone, where nobody asks for it.
const rested = 30 * time.Second

// Others are the leases of the other machines of an installation.
type Others struct {
	inst   *installation.Installation
	leases *machines.Leases
	broker *lease.Broker
}

// OthersOf are those of an installation; where it has no store there are none.
func OthersOf(inst *installation.Installation) *Others {
	leases := machines.LeasesOf(inst.Registry, inst.Keys)
	return &Others{inst, leases, leaseBroker(inst, leases)}
}

// TakeBack revokes what lost sessions left of the credentials that the config here mints, too, and says what that
// was. What could not be taken back is tried again, here or at another machine, after a while.
func (o *Others) TakeBack(ctx context.Context, after time.Duration) (orphans []lease.Orphan, err error) {
	var minted []string
	for _, c := range o.inst.Config.Credentials {
		if c.Mint.Named() && c.Mint.Revocable() { // the others end by themselves
			minted = append(minted, c.Name)
		}
	}
	err = o.leases.TakeBack(ctx, minted, after, func(one machines.Lease, with nacre.Secret, why error) bool {
		if why == nil {
			why = o.broker.TakeBack(ctx, one.Credential, with)
		}
		orphan := lease.Orphan{Session: nacre.SessionID(one.Name()), Credential: one.Credential, Since: one.Since}
		if why != nil {
			orphan.Left, orphan.Refused = why.Error()+" · good until "+one.Until.UTC().Format("15:04")+" at the latest", errors.Is(why, lease.ErrRefused)
		}
		orphans = append(orphans, orphan)
		return why == nil
	})
	return orphans, err
}

// Held are the leases of all machines that were not given back: this one's, and then others'.
func Held(ctx context.Context, inst *installation.Installation) ([]lease.Held, error) {
	o := OthersOf(inst)
	held, err := o.broker.Held()
	if err != nil {
		return nil, &installation.NotReady{What: "credentials", Err: inst.Writable(err)}
	}
	others, err := o.leases.List(ctx)
	for _, one := range others {
		held = append(held, lease.Held{Session: nacre.SessionID(one.Name()), Group: one.Group, Credential: one.Credential, Since: one.Since, Until: one.Until, Lost: one.Lost})
	}
	return held, err
}

// TakenBack is [Others.TakeBack] for whoever looks again and again: it gives the records of what was taken back.
func (o *Others) TakenBack(ctx context.Context) (records []nacre.Record) {
	orphans, _ := o.TakeBack(ctx, rested) // what fails is done at a later look
	for _, orphan := range orphans {
		if orphan.Left == "" {
			records = append(records, orphaned(orphan))
		}
	}
	return records
}

// orphaned is the record of a lease that its session did not give back.
func orphaned(o lease.Orphan) nacre.Record {
	detail, _ := json.Marshal(o) // texts and a time
	return nacre.Record{Kind: lease.Kind, Source: "core", Outcome: "orphaned", Detail: detail}
}
