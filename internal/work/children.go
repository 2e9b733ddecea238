package work

import (
	"context"
	"errors"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/children"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/order"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// family are the sub-agents that a run's agent may ask for (M-69). There are none where the run
// judges or lands the work of another, or where its work is left at a stage.
func (run Run) family(inst *installation.Installation, spec task.Spec) *children.Family {
	if run.startsNone() || run.audited != nil || run.Until != "" {
		return nil
	}
	return children.New(children.Options{
		Inst: inst, Above: run.child, Name: registry.NewID, Settle: settled(inst),
		Row: func(s children.Parent) (string, error) {
			if spec.Order != nil {
				return spec.Order.Agent, nil
			}
			return receipt.RowOf(s.Work()), receipt.EnterRow(s.Context(), inst, s.ID())
		},
		Fits: func(role, words string) error {
			_, _, err := order.Below(spec, role, words)
			return err
		},
		Begin: func(ctx context.Context, s children.Parent, c *children.Child) (nacre.RunResult, error) {
			below, ended := run.below(s, spec, c), func(Report, error) {}
			if run.Child != nil {
				below.Telling, ended = run.Child(c.ID)
			}
			report, err := Do(ctx, inst, below)
			ended(report, err)
			return report.RunResult, err
		},
	})
}

// parentOf is a session as its family knows it.
func parentOf(s *seal.Session) children.Parent {
	p := children.Parent{Basis: s.Basis, Memory: s.Memory, Catalog: s.Kernel.Catalog}
	if s.Model.Gateway != nil {
		p.Budget = s.Model.Gateway
	}
	return p
}

// settled ends what a sub-agent left, and says what it came to by its own records: where they cannot
// be read, it cost all that it might have.
func settled(inst *installation.Installation) func(context.Context, *children.Child) (children.Settled, error) {
	return func(ctx context.Context, c *children.Child) (children.Settled, error) {
		known, err := inst.Registry.Show(c.ID)
		if errors.Is(err, registry.ErrUnknown) { // it never began
			return children.Settled{}, nil
		}
		if err == nil {
			err = operator.Settle(ctx, inst, c.ID, func(operator.Killed) {})
		}
		_, cost, unread := receipt.Count(inst, known.Chains)
		if unread != nil {
			cost.MicroUSD = c.Budget
		}
		commit, unknown := operator.Landed(ctx, inst, c.ID)
		return children.Settled{Cost: cost.MicroUSD, Commit: commit}, errors.Join(err, unread, unknown)
	}
}

// below is the run of a sub-agent: what its parent was asked, for a part of it.
func (run Run) below(s children.Parent, spec task.Spec, c *children.Child) Run {
	checks := spec.Checks
	if own := s.Inst.Config.Children.Checks; len(own) > 0 {
		checks = own
	}
	r := Run{
		Task: c.Task, Project: spec.Project, Choice: Choice{Brain: spec.Brain, Model: spec.Model}, Checks: slices.Concat(checks, c.Checks), Egress: spec.Egress,
		Group: s.Group(), Session: c.ID, Effort: Effort{MaxTurns: spec.MaxTurns, Tries: spec.Tries, Held: string(spec.Held)},
		Limits: run.Limits, Telling: Telling{Progress: func(nacre.Step) {}}, behalf: behalf{child: c, of: spec},
	}
	r.Limits.Wall = c.Wall
	if spec.Recording != "" {
		r.Recording = spec.Recording + c.Suffix()
	}
	if run.Record != "" {
		r.Record = run.Record + c.Suffix()
	}
	r.Asking = seal.Asking{Patience: run.Asking.Patience, Ask: func(q nacre.Question, _ func(nacre.Ruling) (nacre.Pressed, error)) {
		s.Warn(nacre.Step{Kind: nacre.StepStage, Name: "child", Text: string(c.ID) + " asks, about " + string(q.Capability) + ": nacre approvals show " + q.ID})
	}}
	return r
}

// parent is the session whose agent asked for the run.
func (run *Run) parent() nacre.SessionID {
	if run.child == nil {
		return ""
	}
	return run.child.Kin.Parent
}

// queue lets a run land when it is its turn in the project, and a sub-agent's after those that
// were started before it.
func (run Run) queue(s *seal.Session, spec task.Spec) func(context.Context) (func(), error) {
	return func(ctx context.Context) (leave func(), err error) {
		if run.child != nil {
			if err := run.child.Turn(ctx); err != nil {
				return nil, err
			}
		}
		return s.Inst.Registry.Queue(ctx, spec.Project)
	}
}
