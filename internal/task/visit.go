package task

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/engine"
)

// visitWorkflow is kept in the engine's database: it must not change.
const visitWorkflow = "visit"

// Visit is what became of a turn without a project.
type Visit struct {
	// Idle says that there was nothing to do and no model was asked.
	Idle bool `json:"idle,omitempty"`
	// Ended is "done", or why it failed.
	Ended string `json:"ended"`
	// Report is what the agent said last: a claim.
	Report string `json:"report,omitempty"`
	// Resume is what the brain's next turn goes on from; empty where it cannot.
	Resume string `json:"resume,omitempty"`
	// Brain is who had the turn; empty where nobody had.
	Brain string `json:"brain,omitempty"`
	// Cost is in millionths of a dollar.
	Cost int64 `json:"cost_microusd"`
}

// Done reports whether nothing failed.
func (v Visit) Done() bool { return v.Ended == endedWell }

// A Gate is what a script says before a model is woken (D-34).
type Gate struct {
	// Wake says that there is something to do, and Found what it is, in the
	// script's words.
	Wake  bool   `json:"wake"`
	Found string `json:"found,omitempty"`
	// Failed is why nobody knows whether there is anything to do.
	Failed string `json:"failed,omitempty"`
}

// A Mind is who takes a turn, and what it is given for it.
type Mind struct {
	Brain brain.Brain
	Turn  brain.Turn
	// Failed is why there is nobody to take it.
	Failed string
}

// VisitParts are what a visit works with beside the parts of every run, which
// need no Brain and no Turn.
type VisitParts struct {
	// Dir is the folder that the agent works in.
	Dir string
	// Gate asks a script whether there is anything to do; nil means that there is.
	Gate func(ctx context.Context) (Gate, error)
	// Wake prepares who takes the turn, once there is something to do and not
	// before; found is what the script said. It is called again where a visit goes on.
	Wake func(ctx context.Context, found string) (Mind, error)
}

// RunVisit carries out a turn that has no project and lands nothing: an answer to a
// message, or the work of a timer. It goes on where it was interrupted, like a
// run: a gate that has answered is not asked again.
func RunVisit(ctx context.Context, parts Parts, visit VisitParts) (Visit, error) {
	workflows := map[string]engine.Workflow{
		visitWorkflow: func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			result, err := (&visitor{opening: &opening{Parts: parts, w: w}, VisitParts: visit}).visit()
			if err != nil {
				return nil, err
			}
			return json.Marshal(result)
		},
	}
	e, err := engine.Open(ctx, engine.Options{Path: parts.Kept.Engine, Executor: string(parts.Session.ID())}, workflows)
	if err != nil {
		return Visit{}, err
	}
	result, err := await[Visit](ctx, e, parts.Session, visitWorkflow)
	return result, errors.Join(err, e.Close())
}

// visitor is one execution of a visit's workflow.
type visitor struct {
	*opening
	VisitParts
}

// visit is the whole of a visit.
func (v *visitor) visit() (Visit, error) {
	gate := Gate{Wake: true}
	if v.Gate != nil {
		var err error
		gate, err = step(v.opening, "gate", v.Gate)
		switch {
		case err != nil:
			return Visit{}, err
		case gate.Failed != "":
			return v.leave(Visit{Ended: "gate: " + gate.Failed})
		case !gate.Wake:
			return v.leave(Visit{Idle: true, Ended: endedWell})
		}
	}
	done, err := step(v.opening, "converse", func(ctx context.Context) (Visit, error) { return v.turn(ctx, gate.Found) })
	if err != nil {
		return Visit{}, err
	}
	return v.leave(done)
}

// turn wakes a brain and gives it its turn.
func (v *visitor) turn(ctx context.Context, found string) (Visit, error) {
	mind, err := v.Wake(ctx, found)
	if err != nil || mind.Failed != "" {
		return Visit{Ended: mind.Failed}, err
	}
	v.Brain, v.Turn = mind.Brain, mind.Turn
	talk, err := v.talk(ctx, v.Turn, Workspace{Dir: v.Dir})
	if err != nil {
		return Visit{}, err
	}
	return Visit{Ended: talk.Ended, Report: talk.Report, Resume: talk.Resume, Brain: v.Brain.Name(), Cost: v.Spent()}, nil
}

// leave records the outcome.
func (v *visitor) leave(done Visit) (Visit, error) {
	return step(v.opening, "record", func(ctx context.Context) (Visit, error) {
		outcome := "failed"
		switch {
		case done.Idle:
			outcome = "nothing to do"
		case done.Done():
			outcome = endedWell
		}
		return done, v.record(ctx, nacre.Record{Kind: nacre.KindOutcome, Outcome: outcome, Reason: done.Ended}, map[string]any{"cost_microusd": done.Cost})
	})
}
