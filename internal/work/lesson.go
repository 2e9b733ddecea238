package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/experience"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// taught is a task as other tasks learn from it. Words that an agent wrote for another, or
// that only name the work which an auditor judges, teach nobody: then there is none.
func taught(spec task.Spec) (t experience.Task, is bool) {
	if spec.Audited != nil || spec.Parent != "" || spec.Order != nil && spec.Order.Parent != "" || spec.Words() == "" {
		return experience.Task{}, false
	}
	return experience.Task{Project: spec.Project, Words: spec.Words()}, true
}

// sourceOf names a run among those that lessons come from.
func sourceOf(spec task.Spec, work string) string {
	if spec.Order != nil {
		return spec.Order.DNA
	}
	return work
}

// warning is what the agent is told of how tasks like its own failed before, and what fixed them
// (M-53). The operator is told that it is, and the record names what it was.
func warning(ctx context.Context, s *seal.Session, spec task.Spec) string {
	asked, is := taught(spec)
	if !is {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, agent.BriefLimit)
	defer cancel()
	w, err := experience.Warn(ctx, s.Memory, asked, s.Inst.Options.Now())
	if err == nil && len(w.IDs) > 0 {
		err = s.Memory.Recalled(ctx, experience.Writer(s.ID()), w.IDs)
	}
	if err != nil {
		noteLesson(ctx, s, "no warning", err.Error(), nil)
		return ""
	}
	if w.Failures > 0 {
		noteLesson(ctx, s, "warned", "", w.IDs)
		s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "lesson", Text: fmt.Sprintf("the agent is told of earlier failures of tasks like this one: %d, with a verified fix: %d", w.Failures, w.Fixed)})
	}
	return w.Text
}

// learn keeps what the end of a task teaches. A memory that cannot be written loses the lesson,
// which the record says, and never the work.
func learn(ctx context.Context, s *seal.Session, spec task.Spec, result nacre.RunResult, before []nacre.RunResult) {
	asked, is := taught(spec)
	if !is {
		return
	}
	learned, err := experience.Learn(ctx, s.Memory, experience.Writer(s.ID()), experience.End{
		Task: asked, Source: sourceOf(spec, s.Work()), Before: before, Result: result, Verified: result.Passed && outcomeOf(result).Verified(),
	})
	switch {
	case err != nil:
		noteLesson(ctx, s, "no lesson", err.Error(), nil)
	case !learned.None():
		noteLesson(ctx, s, "learned", "", learned)
	}
}

// learnDecision keeps what a person's decision teaches: work that they accept is verified, and
// work that they refuse failed for their reason. Of a session that was pruned nothing is known
// any more, and nothing is learned. Nor is anything of work that another has followed in its session.
func learnDecision(ctx context.Context, inst *installation.Installation, run ledger.Run, held bool, reason string) (err error) {
	id := nacre.SessionID(run.Session)
	if id == "" {
		return nil
	}
	known, err := inst.Registry.Show(id)
	if errors.Is(err, registry.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := inst.Registry.Paths().Session(id)
	spec, there, err := specIn(dir)
	if err != nil || !there {
		return err
	}
	result, err := registry.Result(dir)
	asked, is := taught(spec)
	if err != nil || result == nil || !is || !latest(inst, run, known, spec) {
		return err
	}
	store, err := inst.OpenMemory(ctx, known.Group, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	end := experience.End{Task: asked, Source: sourceOf(spec, known.LatestWork()), Result: *result, Verified: held}
	w := experience.Writer(id)
	if held {
		_, err = experience.Learn(ctx, store, w, end)
	} else {
		_, err = experience.Refused(ctx, store, w, end, reason)
	}
	return err
}

// latest tells whether a row is that of the latest work of its session, which spec is of.
func latest(inst *installation.Installation, run ledger.Run, known registry.Session, spec task.Spec) bool {
	if spec.Order != nil {
		return spec.Order.DNA == run.DNA
	}
	return receipt.Names(inst, run, receipt.Worked{Session: known.ID, Work: known.LatestWork(), Chains: known.Chains})
}

// noteLesson records what was learned or told. The recorder itself stops the session if it fails.
func noteLesson(ctx context.Context, s *seal.Session, outcome, reason string, detail any) {
	raw, err := json.Marshal(map[string]any{"lessons": detail})
	if err != nil {
		reason = errors.Join(errors.New(reason), err).Error()
	}
	_ = s.Recorder.Append(context.WithoutCancel(ctx), nacre.Record{Kind: nacre.KindMemory, Source: "core", Outcome: outcome, Reason: reason, Detail: raw})
}
