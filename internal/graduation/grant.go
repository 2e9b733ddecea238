package graduation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/operator"
)

const (
	// DefaultTime is how long a power is unlocked unless a person says otherwise.
	DefaultTime = 30 * 24 * time.Hour
	// MaxTime is how long at most.
	MaxTime = 90 * 24 * time.Hour
	// powerChain is an operator's chain of what was unlocked and taken back.
	powerChain = "power-"
	// Kind of the records in it.
	Kind nacre.Kind = "power"
)

// Unlock lets runs have a power that is proposed, because a person says so, for a time.
func Unlock(ctx context.Context, inst *installation.Installation, name, who string, long time.Duration) (learned.Approval, error) {
	if long <= 0 || long > MaxTime {
		return learned.Approval{}, config.Errorf("a power is unlocked for 1 to %d days", int(MaxTime/(24*time.Hour)))
	}
	p, err := find(ctx, inst, name)
	if err != nil {
		return learned.Approval{}, err
	}
	if p.State != Proposed {
		return learned.Approval{}, config.Errorf("%s is %s, and is unlocked where it is proposed alone: %s", name, p.State, why(p.Standing))
	}
	now := inst.Options.Now().UTC().Truncate(time.Second)
	approval := p.approval(who, now, now.Add(long))
	err = decree(ctx, inst, "unlocked", approval, func(l *ledger.Ledger, a ledger.Anchor) error {
		return errors.Join(ledger.Grant(ctx, l, name, approval.Until, who, a), change(ctx, inst, name, &approval))
	})
	return approval, err
}

// Lock takes a power back, because a person says so. What spoke for it before counts no more.
func Lock(ctx context.Context, inst *installation.Installation, name, who string) error {
	if _, err := find(ctx, inst, name); err != nil {
		return err
	}
	return decree(ctx, inst, "locked", learned.Approval{ID: idOf(name), By: who}, func(l *ledger.Ledger, a ledger.Anchor) error {
		return errors.Join(change(ctx, inst, name, nil), ledger.Revoke(ctx, l, name, who, a))
	})
}

// Demote takes powers back at once, since a run that used them failed. It says which were unlocked.
func Demote(ctx context.Context, inst *installation.Installation, powers []string) (demoted []string, err error) {
	all, err := learned.Load(inst.Registry.Paths().Config)
	if err != nil {
		return nil, err
	}
	for _, name := range powers {
		if !slices.ContainsFunc(all, func(a learned.Approval) bool { return a.Power == name }) {
			continue
		}
		if err := change(ctx, inst, name, nil); err != nil {
			return demoted, err
		}
		demoted = append(demoted, name)
	}
	return demoted, nil
}

func why(s Standing) string {
	if s.State == Unlocked {
		return "until " + s.Until.Format(time.RFC3339)
	}
	return fmt.Sprint(s.Missing)
}

func find(ctx context.Context, inst *installation.Installation, name string) (Standed, error) {
	all, err := Standings(ctx, inst)
	if err != nil {
		return Standed{}, err
	}
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
	}
	return Standed{}, config.Errorf("there is no power %.60q: nacre power list names those there are", name)
}

func idOf(name string) string { return "power-" + name }

// approval is the power as what a person approved, with the evidence that it was approved on.
func (p Standed) approval(who string, now, until time.Time) learned.Approval {
	sum := sha256.New()
	a := learned.Approval{ID: idOf(p.Name), By: who, At: now, Until: until, Power: p.Name, Sessions: []string{}}
	for _, e := range p.Counted {
		_, _ = fmt.Fprintf(sum, "%s %d %s\n", e.Anchor.Chain, e.Anchor.Seq, e.Anchor.Hash) // a hash takes everything
	}
	a.Evidence = hex.EncodeToString(sum.Sum(nil))
	for _, rule := range p.rules {
		only := slices.DeleteFunc(slices.Clone(p.only), func(c egress.Credential) bool { return c.Host != rule.Host || c.Port != rule.Port })
		if len(only) == 0 {
			a.Hosts = append(a.Hosts, learned.Host{Host: rule.String()})
		}
		for _, c := range only {
			a.Hosts = append(a.Hosts, learned.Host{Host: rule.String(), Methods: c.Methods, Paths: c.Paths})
		}
	}
	return a
}

// change puts an approval in the place of what a power was unlocked by before; nil puts nothing there.
func change(ctx context.Context, inst *installation.Installation, power string, approval *learned.Approval) error {
	return learned.Change(ctx, inst.Registry.Paths().Config, func(have learned.Approvals) (learned.Approvals, error) {
		next := slices.DeleteFunc(have, func(a learned.Approval) bool { return a.Power == power })
		if approval != nil {
			next = append(next, *approval)
		}
		return next, nil
	})
}

// decree records what a person decides of a power, and then does it.
func decree(ctx context.Context, inst *installation.Installation, what string, a learned.Approval, do func(*ledger.Ledger, ledger.Anchor) error) (err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	chain, closed, err := operator.Chain(ctx, inst, powerChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	detail, err := json.Marshal(map[string]any{"power": a.ID, "by": a.By, "until": a.Until, "evidence": a.Evidence})
	if err != nil {
		return err
	}
	err = chain.Commit(ctx, nacre.Record{Time: inst.Options.Now(), Kind: Kind, Source: "operator", Outcome: what, Detail: detail})
	if err != nil {
		return err
	}
	head, err := chain.Head(ctx)
	if err != nil {
		return err
	}
	return do(l, ledger.Anchor{Chain: head.Chain, Seq: head.Seq, Hash: hex.EncodeToString(head.RecordHash[:])})
}
