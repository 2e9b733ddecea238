package work

import (
	"cmp"
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/fetch"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// runner runs a verifier's commands over the code under test: each in a fresh
// sandbox that reaches nothing, no door, no proxy, no secrets (S-13).
func runner(s *seal.Session) verify.Runner {
	return func(ctx context.Context, c verify.Command) (verify.Output, error) {
		p, err := s.PostureWith(posture.Input{
			Project: c.Dir, Offline: true, Env: c.Env, Limits: nacre.Limits{Wall: cmp.Or(c.Limit, checkLimit)},
		}, c.Modules)
		if err != nil {
			return verify.Output{}, err
		}
		return process.Output(ctx, s, sandbox.Command{Posture: p, Argv: c.Argv})
	}
}

// judge holds work against the order's atoms.
func judge(ctx context.Context, s *seal.Session, order *task.Order, w verify.Subject, atoms []atom.Atom) (verify.Report, error) {
	var err error
	if w.Ledger, err = entered(ctx, s.Inst, order.DNA); err != nil {
		return verify.Report{}, err
	}
	w.Fetch = func(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
		return fetch.Packages(ctx, s.Basis, p)
	}
	return verify.Judge(ctx, w, atoms, runner(s))
}
