package intrinsic

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// maxTurned is how many refusals of the door get_diagnostics can tell of: as
// many as it tells of events at most.
const maxTurned = 100

// Refusals keeps the newest of what the door refused before the kernel heard of
// it, for an agent that asks what became of its calls (D-30).
type Refusals struct {
	mu     sync.Mutex
	events []diagnosed
}

func (t *Refusals) all() []diagnosed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]diagnosed{}, t.events...)
}

// keep leaves the topic out: it is text of the agent's, and what an intrinsic
// tool returns counts as trusted.
func (t *Refusals) keep(r nacre.Record) {
	var detail struct {
		Code nacre.Code `json:"code"`
	}
	if r.Kind != nacre.KindCallReject || r.Outcome != nacre.OutcomeRejected || r.Correlation == "" || json.Unmarshal(r.Detail, &detail) != nil {
		return // a connection, or the sum of many
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, diagnosed{
		at: r.Time, Time: r.Time.UTC().Format(time.RFC3339), Event: kernel.EventDeny, Correlation: r.Correlation,
		Stage: r.Stage, Outcome: r.Outcome, Code: detail.Code, Reason: nacre.ReasonCode(r.Reason),
	})
	t.events = t.events[max(0, len(t.events)-maxTurned):]
}

// Of is a recorder of the door's that keeps its refusals in mind.
func (t *Refusals) Of(recorder nacre.Recorder) nacre.Recorder { return refusalRecorder{recorder, t} }

// refusalRecorder is a recorder of the door's that keeps its refusals in mind.
type refusalRecorder struct {
	nacre.Recorder
	turned *Refusals
}

// Append implements nacre.Recorder.
func (t refusalRecorder) Append(ctx context.Context, r nacre.Record) error {
	t.turned.keep(r)
	return t.Recorder.Append(ctx, r)
}
