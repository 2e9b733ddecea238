package work

import (
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
)

// Again is what a session's run was asked for, as a run of its own: in a new session, on a
// fresh clone (U-40). A task in a role is not among them: it goes by its file.
func Again(inst *installation.Installation, id nacre.SessionID) (Run, error) {
	known, err := inst.Registry.Show(id)
	if err != nil {
		return Run{}, err
	}
	spec, there, err := specIn(inst.Registry.Paths().Session(id))
	switch {
	case err != nil:
		return Run{}, fmt.Errorf("session %s: %w", id, err)
	case !there || spec.Order != nil || spec.Audited != nil:
		return Run{}, config.Errorf("session %s has no task of nacre run that could be given again: begin it yourself", id)
	}
	return Run{
		Task: spec.Task, Project: spec.Project, Choice: Choice{Brain: spec.Brain, Model: spec.Model, Recording: spec.Recording}, Checks: spec.Checks,
		Egress: spec.Egress, Assignment: Assignment{Powers: spec.Powers}, Group: known.Group, Effort: Effort{MaxTurns: spec.MaxTurns, Tries: spec.Tries, Held: string(spec.Held), Dirty: spec.Dirty},
	}, nil
}
