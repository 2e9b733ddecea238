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

// merge is pass 2: the change on the current target is verified, and exactly
// that tree lands. Where the target moves meanwhile, it begins again. Each
// attempt has steps of its own, which an opening that goes on passes through.
func (r *run) merge(base baseline, result *nacre.RunResult) error {
	leave, err := r.queue()
	if err != nil { // as a step's: it stops the session, and the work goes on later
		_, err = step(r, "queue", func(context.Context) (struct{}, error) { return struct{}{}, err })
		return err
	}
	defer leave()
	for attempt := 1; ; attempt++ {
		if over, err := r.mergeOnce(base, result, "-"+strconv.Itoa(attempt)); over || err != nil {
			return err
		}
	}
}

// queue waits for the project to be this run's alone, until the session is
// stopped or the work interrupted.
func (r *run) queue() (leave func(), err error) {
	ctx, cancel := context.WithCancelCause(r.w.Context())
	defer cancel(nil)
	stopped := r.Session.Context()
	stop := context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })
	defer stop()
	return r.Queue(ctx)
}

// mergeOnce is one attempt, over where it landed or nothing more can.
func (r *run) mergeOnce(base baseline, result *nacre.RunResult, n string) (over bool, err error) {
	merged, err := step(r, "merge"+n, func(ctx context.Context) (mergedTree, error) { return r.mergeOnto(ctx, base, *result) })
	if err != nil {
		return false, err
	}
	if merged.Conflict != "" {
		result.Reason = merged.Conflict
		return true, nil
	}
	if merged.Tree != result.Tree {
		again, err := step(r, "verify-merged"+n, func(ctx context.Context) (verification, error) {
			return r.verifyMerged(ctx, base, merged, *result)
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
	if err := r.pause("verified"+n, nacre.StageVerified, verified); err != nil {
		return false, err
	}
	landed, err := step(r, "land"+n, func(ctx context.Context) (landing, error) {
		if r.hold(verified) {
			return landing{}, nil
		}
		if waiting := r.spec.Held.waits(r.Session.ID(), verified.Changes); waiting.Waits {
			return waiting, nil
		}
		landed, err := r.land(ctx, base, merged)
		if landed.Moved {
			r.moved++
		}
		return landed, err
	})
	switch {
	case err != nil:
		return false, err
	case landed.Moved:
		return false, r.giveWay("moved"+n, base, verified)
	}
	if result.Landed = landed.Landed; !landed.Waits {
		result.Commit = merged.Commit
	}
	result.Reason, result.Next = landed.Reason, landed.Next
	if landed.Landed {
		r.spec.Held.leftOut(result)
	}
	return true, nil
}

// giveWay leaves the work to a later opening where its target does not stay in
// place. Its step is never kept: what it decides on is this opening's alone.
func (r *run) giveWay(name string, base baseline, verified nacre.RunResult) error {
	if r.moved < maxMerges {
		return nil
	}
	_, err := step(r, name, func(context.Context) (struct{}, error) {
		verified.Reason = fmt.Sprintf("%s moved %d times while its merge was verified: go on when it rests", base.Branch, r.moved)
		verified.Next = "nacre run --session " + string(r.Session.ID())
		if r.spec.Order != nil {
			verified.Next = "nacre task run --session " + string(r.Session.ID())
		}
		r.Paused(verified)
		r.Session.Stop(ErrPaused)
		return struct{}{}, nil
	})
	return err
}
