package leftover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
)

// maxDone is how many runs that are done and did not land are looked for in their
// projects at once, the latest first.
const maxDone = 50

// SettleMerged says in the ledger that work has landed which was kept on a branch of its
// own, and which somebody has merged since (F-103). A project that cannot be read now is
// looked at again by the next one who asks.
func SettleMerged(ctx context.Context, inst *installation.Installation) error {
	return eachDone(ctx, inst, func(l *ledger.Ledger, r ledger.Run) error {
		branch := mergedInto(ctx, inst, l, r)
		if branch == "" {
			return nil
		}
		return settleRow(ctx, inst, l, r, ledger.Merged, "merged into "+branch+" by a person")
	})
}

// eachDone visits the runs that are done and did not land, the latest first.
func eachDone(ctx context.Context, inst *installation.Installation, visit func(*ledger.Ledger, ledger.Run) error) (err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	done, err := l.List(ctx, ledger.Filter{Status: ledger.Done, Limit: maxDone})
	if err != nil {
		return err
	}
	for _, r := range done {
		if err := visit(l, r); err != nil {
			return err
		}
	}
	return nil
}

// settleRow says what became of work that was done, with a record that it stands on.
func settleRow(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, r ledger.Run, status ledger.Status, reason string) error {
	chain, seq, hash, err := operator.Anchored(ctx, inst, string(status), reason)(r.ID, r.DNA)
	if err != nil {
		return err
	}
	move := l.Reject
	if status == ledger.Merged {
		move = l.Merge
	}
	err = move(ctx, r.DNA, ledger.Landing{Reason: reason, Anchor: ledger.Anchor{Chain: chain, Seq: seq, Hash: hash}})
	if errors.Is(err, ledger.ErrTransition) { // somebody else has said so meanwhile
		return nil
	}
	return err
}

// settleRows says what became of the runs of a session's latest work that are done.
func settleRows(ctx context.Context, inst *installation.Installation, held *registry.Held, status ledger.Status, reason string) error {
	return eachDone(ctx, inst, func(l *ledger.Ledger, r ledger.Run) error {
		if r.Session != string(held.ID) {
			return nil
		}
		end, err := endOf(ctx, l, r)
		if err != nil || !slices.Contains(held.Chains, end.Chain) {
			return err
		}
		return settleRow(ctx, inst, l, r, status, reason)
	})
}

// mergedInto is the branch of the project that holds the commit of a run; empty where none
// that is checked out does, or nobody can tell.
func mergedInto(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, r ledger.Run) string {
	s, err := inst.Registry.Show(nacre.SessionID(r.Session))
	if err != nil || s.Project == "" {
		return ""
	}
	commit, err := commitOf(ctx, inst, l, r)
	if err != nil || commit == "" {
		return ""
	}
	p, err := repo.Open(ctx, s.Project, repo.Options{StateDir: inst.Registry.Paths().Session(s.ID), Now: inst.Options.Now})
	if err != nil || !p.Contains(ctx, p.Base, commit) {
		return ""
	}
	if p.Branch == "" {
		return "a detached HEAD"
	}
	return p.Branch
}

// commitOf is the commit that a run came to, from the chain that its end stands in.
func commitOf(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, r ledger.Run) (found repo.Commit, err error) {
	end, err := endOf(ctx, l, r)
	if err != nil {
		return "", err
	}
	err = audit.Read(inst.AuditRoot(), end.Chain, func(a audit.Entry) error {
		var detail struct{ Commit string }
		if a.Kind != nacre.KindOutcome {
			return nil
		}
		err := json.Unmarshal(a.Detail, &detail)
		if err == nil && detail.Commit != "" {
			found, err = repo.ParseCommit(detail.Commit)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", a.Seq, err)
		}
		return nil
	})
	return found, err
}

// endOf is the record that the last change of a row stands on.
func endOf(ctx context.Context, l *ledger.Ledger, r ledger.Run) (ledger.Anchor, error) {
	e, err := l.Show(ctx, r.DNA)
	if err != nil || len(e.Changes) == 0 {
		return ledger.Anchor{}, err
	}
	return e.Changes[len(e.Changes)-1].Anchor, nil
}
