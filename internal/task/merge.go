package task

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nacre-dev/nacre"
)

// maxMerges is how often the target may move under an opening of a run before
// it is left for a later one.
const maxMerges = 5

// merger takes what was verified to its target.
type merger struct {
	*run
	base   baseline
	result *nacre.RunResult
	// moved is how often the target has moved in this opening: what a step did in
	// an earlier one is kept, and not counted.
	moved int
}

// merge is pass 2: the change on the current target is verified, and exactly
// that tree lands. Where the target moves meanwhile, it begins again. Each
// attempt has steps of its own, which an opening that goes on passes through.
func (m *merger) merge() error {
	leave, err := m.queue()
	if err != nil { // as a step's: it stops the session, and the work goes on later
		_, err = step(m.opening, "queue", func(context.Context) (struct{}, error) { return struct{}{}, err })
		return err
	}
	defer leave()
	if landed, err := m.landedBefore(); landed || err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if over, err := m.once("-" + strconv.Itoa(attempt)); over || err != nil {
			return err
		}
	}
}

// queue waits for the project to be this run's alone, until the session is
// stopped or the work interrupted.
func (m *merger) queue() (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(m.w.Context())
	defer cancel(nil)
	stopped := m.Session.Context()
	stop := context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })
	defer stop()
	return m.Queue(ctx)
}

// once is one attempt, over where it landed or nothing more can.
func (m *merger) once(n string) (over bool, err error) {
	result := m.result
	merged, err := step(m.opening, "merge"+n, func(ctx context.Context) (mergedTree, error) { return m.mergeOnto(ctx, m.base, *result) })
	if err != nil {
		return false, err
	}
	if merged.Conflict != "" {
		result.Reason = merged.Conflict
		return true, nil
	}
	if merged.Tree != result.Tree {
		again, err := step(m.opening, "verify-merged"+n, func(ctx context.Context) (verification, error) {
			return m.verifyMerged(ctx, m.base, merged, *result)
		})
		if err != nil {
			return false, err
		}
		if failed := take(result, again); failed != "" {
			result.Reason = "on top of " + short(merged.Target) + ": " + failed
			return true, nil
		}
	}
	verified := *result
	verified.Tree, verified.Commit = merged.Tree, merged.Commit
	if err := m.pause("verified"+n, nacre.StageVerified, verified); err != nil {
		return false, err
	}
	landed, err := step(m.opening, "land"+n, func(ctx context.Context) (landing, error) {
		if m.hold(verified) {
			return landing{}, nil
		}
		if waiting := m.spec.Held.waits(m.Session.ID(), verified.Changes); waiting.Waits {
			return waiting, nil
		}
		landed, err := m.land(ctx, merged)
		if landed.Moved {
			m.moved++
		}
		return landed, err
	})
	switch {
	case err != nil:
		return false, err
	case landed.Moved:
		return false, m.giveWay("moved"+n, verified)
	}
	if result.Landed = landed.Landed; !landed.Waits {
		result.Commit = merged.Commit
	}
	result.Reason, result.Next = landed.Reason, landed.Next
	if landed.Landed {
		m.spec.Held.leftOut(result)
	}
	return true, nil
}

// giveWay leaves the work to a later opening where its target does not stay in
// place. Its step is never kept: what it decides on is this opening's alone.
func (m *merger) giveWay(name string, verified nacre.RunResult) error {
	if m.moved < maxMerges {
		return nil
	}
	_, err := step(m.opening, name, func(context.Context) (struct{}, error) {
		verified.Reason = fmt.Sprintf("%s moved %d times while its merge was verified: go on when it rests", m.base.Branch, m.moved)
		verified.Next = "nacre run --session " + string(m.Session.ID())
		if m.spec.Order != nil {
			verified.Next = "nacre task run --session " + string(m.Session.ID())
		}
		m.Paused(verified)
		m.Session.Stop(ErrPaused)
		return struct{}{}, nil
	})
	return err
}

// land moves the branch to exactly the verified commit.
func (m *merger) land(ctx context.Context, merged mergedTree) (landing, error) {
	project, err := m.project(ctx, m.base.Commit)
	if err != nil {
		return landing{}, err
	}
	result, outcome, err := m.handover(project, m.base.Branch).land(ctx, merged)
	if err == nil {
		m.Progress(nacre.Step{Kind: nacre.StepMerge, Text: outcome})
	}
	return result, err
}

// hold stops the session where what was verified must not land: not yet, or not
// in this opening. The step that asks runs again when the session goes on.
func (m *merger) hold(verified nacre.RunResult) bool {
	if m.Until == "" {
		verified.Reason = m.MayLand(verified.Tree)
	}
	if m.Until == "" && verified.Reason == "" {
		return false
	}
	m.Paused(verified)
	m.Session.Stop(ErrPaused)
	return true
}
