package work

import (
	"context"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/fetch"
	"github.com/nacre-dev/nacre/internal/launch"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// apart runs what verifies the session's work.
func apart(s *seal.Session) launch.Apart { return launch.Apart{Session: s.Basis, Reach: s.Reach} }

// judge holds work against the order's atoms.
func judge(ctx context.Context, s *seal.Session, order *task.Order, w verify.Subject, atoms []atom.Atom) (verify.Report, error) {
	var err error
	if w.Ledger, err = entered(ctx, s.Inst, order.DNA); err != nil {
		return verify.Report{}, err
	}
	w.Fetch = func(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
		return fetch.Packages(ctx, s.Basis, p)
	}
	return verify.Judge(ctx, w, atoms, apart(s).Run)
}
