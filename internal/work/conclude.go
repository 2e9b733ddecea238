package work

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/children"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// suspend closes a session whose work is not finished: it can go on later. Where
// somebody stopped it, a receipt says how far it came; that of its end replaces
// it (M-16).
func suspend(ctx context.Context, s *seal.Session, spec task.Spec, why error) error {
	ctx = context.WithoutCancel(ctx)
	cut, chains := s.Cut(), s.Chains()
	var err error
	if why != nil && !errors.Is(why, task.ErrPaused) { // a run that was left at a stage keeps its agent's id
		err = interrupt(ctx, s, spec, cleanReason(s, why))
	}
	if cut != "stopped" || len(chains) == 0 {
		return errors.Join(err, s.Close(ctx, "interrupted", false))
	}
	err = errors.Join(err, s.Close(ctx, cut, false))
	return errors.Join(err, s.CutReceipt(ctx, cut, spec.Task, spec.Project, chains))
}

// cleanReason is why a run does not go on for now, without secrets.
func cleanReason(s *seal.Session, why error) string {
	text, _ := s.Inst.Redact.String(reasonOf(why))
	return text
}

// reasonOf is why a run does not go on for now.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, operator.ErrStopped):
		return "its session was stopped"
	case errors.Is(err, context.Canceled):
		return "nacre was told to end"
	}
	return err.Error()
}

// giveUp ends work that nobody can go on with: its row, and the durable work itself, so
// that no later run of the session carries it on (F-96).
func giveUp(ctx context.Context, s *seal.Session, spec task.Spec, result nacre.RunResult) error {
	ctx = context.WithoutCancel(ctx)
	err := errors.Join(decided(ctx, s, spec, result), account(ctx, s, spec, result, 0))
	return errors.Join(err, task.End(ctx, s.Inst.Registry.Paths().Engine(), s.Work()), operator.ForgetRun(ctx, s.Inst, s.ID()))
}

// hadLanded says in the result of work that came to no end of its own whether it had landed. The branch is
// where it is, whatever became of the session since.
func hadLanded(ctx context.Context, s *seal.Session, result *nacre.RunResult) error {
	commit, err := operator.Landed(context.WithoutCancel(ctx), s.Inst, s.ID())
	if commit != "" {
		result.Landed, result.Commit = true, commit
	}
	return err
}

// conclude closes the session and signs what it did. The counts come from the
// chain, not from what the run says of itself.
func conclude(ctx context.Context, s *seal.Session, report Report, spec task.Spec) (Report, error) {
	outcome, chains := report.Outcome(), s.Chains()
	if err := errors.Join(registry.KeepResult(s.Dir(), report.RunResult), tidy(s, &report, spec.Held), operator.ForgetRun(ctx, s.Inst, s.ID()), s.Close(ctx, outcome, true)); err != nil {
		return report, err
	}
	report.Duration = s.Inst.Options.Now().Sub(s.Started)
	path, counts, err := receipt.WriteSession(s.Inst, receipt.Session{
		ID: s.ID(), Group: s.Group(), Started: s.Started, Outcome: outcome, Task: spec.Task, Project: spec.Project, Brain: s.Agent, Sandbox: s.Sandbox().Name(),
		Base: report.Base, Commit: report.Commit, Verdicts: receipt.Verdicts(report.RunResult), Facts: children.Facts(spec.Parent, report.Children), Chains: chains,
	})
	report.Receipt, report.Denied, report.Asked, report.Redacted = path, int(counts.Denied), int(counts.Asked), int(counts.Redacted)
	return report, err
}

// tidy removes what a run worked on that has landed or changed nothing. What did not land, or
// not whole, stays for a person to look at, until the session's next run.
func tidy(s *seal.Session, report *Report, held task.Held) error {
	work := filepath.Join(s.Dir(), task.WorkDir)
	unchanged := report.Reason == task.NothingChanged && len(report.Left) == 0
	if !report.Landed && !report.Delivered && !unchanged || held == task.HeldLeaveOut && len(report.Left) > 0 {
		kept, over, err := repo.Left(work)
		report.Work, report.Over = kept, string(over)
		return err
	}
	vaults, err := filepath.Glob(filepath.Join(s.Dir(), task.VaultPrefix+"*"))
	err = errors.Join(err, repo.RemoveClone(work))
	for _, dir := range append(vaults, filepath.Join(s.Dir(), task.EvidenceDir)) {
		err = errors.Join(err, registry.Discard(dir))
	}
	return err
}

// Outcome says in a word what became of the run.
func (r Report) Outcome() string {
	switch {
	case r.Landed:
		return "landed"
	case r.Delivered:
		return "delivered"
	}
	return "not landed"
}
