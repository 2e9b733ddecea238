package kernel

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// KindRepeat records a call that was not carried out again, since it had been before its
// session was interrupted.
const KindRepeat nacre.Kind = "call.repeat"

// doneBefore takes the approval of a call like this one that had been carried out before the
// session was interrupted. A read is carried out again under it: nothing comes of that twice.
func (r *run) doneBefore() (done token.Standing, was bool) {
	if r.decision.Verdict == nacre.Allow {
		return done, false
	}
	key := r.about(nacre.ScopeOnce)
	done, was = r.session.standings.TakeDone(key, r.now)
	if was && r.tool.capability.Safety == nacre.Read {
		r.session.standings.Again(key, done)
		return done, false
	}
	return done, was
}

// tellDone answers a call that was approved and carried out before: one answer is for one call.
func (k *Kernel) tellDone(ctx context.Context, r *run, done token.Standing) (nacre.Outcome, error) {
	r.approval = approval{question: done.Question, digest: done.Digest, by: done.By}
	record := k.record(r, KindRepeat)
	record.Source, record.Stage, record.Outcome = "core", stageConfirm, nacre.OutcomeAllowed
	record.Reason = "it was carried out before the session was interrupted"
	if err := k.append(ctx, record, r.beginDetail()); err != nil {
		return nacre.Outcome{}, unrecorded(err, "the call could not be recorded")
	}
	result, err := json.Marshal(map[string]any{
		"done_before": true, "at": done.Done.UTC().Format(time.RFC3339),
		"note": "A person approved this very call, and it was carried out, before the session was interrupted. It was not carried out again: go on as if it had just succeeded.",
	})
	if err != nil {
		return nacre.Outcome{}, err
	}
	return r.explain(nacre.Outcome{Result: result, Shape: nacre.ShapeResult, Label: nacre.Trusted}), nil
}
