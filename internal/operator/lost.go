package operator

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/registry"
)

// lostChain is an operator's chain that says of sessions of other machines that they are lost.
const lostChain = "lost-"

// whyLost is the reason in the records and rows of a session that is lost.
const whyLost = string(nacre.SessionNodeLost) + ": the store did not hear of its process for longer than a lease lasts"

// LoseSessions records of the sessions of other machines whose process was declared over that they are lost,
// and says so in the ledger. Nobody works on their runs, and their agents' ids are free.
func LoseSessions(ctx context.Context, inst *installation.Installation) error {
	return machines.SessionsOf(inst.Registry, inst.Keys).Lose(ctx, func(s machines.Session) error { return lose(ctx, inst, s) })
}

func lose(ctx context.Context, inst *installation.Installation, s machines.Session) (err error) {
	chain, closed, err := Chain(ctx, inst, lostChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	detail, err := json.Marshal(map[string]string{"machine": s.Machine, "session": string(s.ID), "kind": s.Kind})
	if err != nil {
		return err
	}
	err = chain.Commit(ctx, nacre.Record{
		Time: inst.Options.Now(), Kind: nacre.KindSessionClose, Group: s.Group, Source: "core", Outcome: string(nacre.SessionNodeLost), Reason: whyLost, Detail: detail,
	})
	if err != nil {
		return err
	}
	l, err := ledger.OpenOn(ctx, inst.Registry.Store(), registry.MachineID(s.Machine), inst.Options.Now)
	if err != nil {
		return err
	}
	return errors.Join(l.InterruptSession(ctx, string(s.ID), whyLost, Anchored(ctx, inst, "interrupted", whyLost)), l.Close())
}
