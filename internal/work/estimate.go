package work

import (
	"context"
	"errors"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/experience"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// ready is the last before a run is begun: who works is known, a person was told what stands
// against it, and what it may cost is settled.
func ready(ctx context.Context, inst *installation.Installation, id nacre.SessionID, run *Run, spec *task.Spec) (agent brain.Brain, status brain.Status, estimate string, err error) {
	run.standing = sync.OnceValues(func() (obstacles, error) { return obstaclesOf(ctx, inst, *spec) })
	if agent, status, err = agentOf(ctx, inst, *run, spec); err != nil {
		return nil, status, "", err
	}
	if err := confirm(ctx, inst, run, *spec, agent); err != nil {
		return nil, status, "", err
	}
	estimate, err = bound(ctx, inst, id, *run, spec)
	return agent, status, estimate, err
}

// bind has the gateway hold what the run may cost, before anything can call it, tells what that
// was estimated from, and keeps the run for other machines.
func bind(ctx context.Context, s *seal.Session, spec task.Spec, estimate string) error {
	if estimate != "" {
		s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "estimate", Text: estimate})
	}
	if err := s.Model.Narrow(spec.Budget); err != nil {
		return err
	}
	return keep(ctx, s, spec)
}

// bound finds what a run may cost, and says from what it was estimated; empty where nothing was. A run
// that goes on has the budget that it was begun with, unless another is named (M-54).
func bound(ctx context.Context, inst *installation.Installation, id nacre.SessionID, run Run, spec *task.Spec) (said string, err error) {
	if run.child != nil {
		spec.Budget = run.child.Budget
		return "", nil
	}
	if run.Budget != "" {
		spec.Budget, err = named(inst, run.Budget)
		return "", err
	}
	asked, is := taught(*spec)
	_, going, err := interrupted(inst, id)
	if err != nil || going || run.carried != nil || !is || spec.Recording != "" || run.startsNone() {
		return "", err
	}
	e, err := estimateOf(ctx, inst, asked, spec.Brain, spec.Model)
	if err != nil || e.Tasks == 0 {
		return "", err
	}
	most, err := inst.Config.Budget()
	if err != nil {
		return "", &config.Error{Err: err}
	}
	spec.Budget = min(e.Budget(), most)
	return e.Told(spec.Budget), nil
}

// named reads the budget that the operator names for a run.
func named(inst *installation.Installation, dollars string) (int64, error) {
	micro, err := config.MicroDollars("--budget", dollars)
	if err != nil {
		return 0, &config.Error{Err: err}
	}
	most, err := inst.Config.Budget()
	switch {
	case err != nil:
		return 0, &config.Error{Err: err}
	case micro == 0:
		return 0, config.Errorf("--budget %s: write more than 0", dollars)
	case micro > most:
		return 0, config.Errorf("--budget %s is more than budget_usd under [model] in config.toml: raise that, too", dollars)
	}
	return micro, nil
}

// estimateOf is what tasks like one have cost with a brain and a model.
func estimateOf(ctx context.Context, inst *installation.Installation, asked experience.Task, brain, model string) (e experience.Estimate, err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	past, err := ledger.Efforts(ctx, l, asked.Project, brain, model)
	return experience.Estimated(asked.Words, past), err
}
