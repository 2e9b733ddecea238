package work

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/task"
)

// startsNone tells the commands that judge or land what an agent has done. They
// start none, and do not ask whether one is ready.
func (run *Run) startsNone() bool { return run.Merger || run.Until == nacre.StageVerified }

// agentOf is the brain that a run may start.
func agentOf(ctx context.Context, inst *installation.Installation, run Run, spec *task.Spec) (brain.Brain, brain.Status, error) {
	if run.startsNone() {
		return bystander{spec.Brain}, brain.Status{}, nil
	}
	return agent.ChooseBrain(ctx, inst, spec)
}

// errStartsNone is work that a command would have to have an agent do.
var errStartsNone = errors.New("this command starts no agent, and the work is not done: go on with it by nacre task run --session")

// bystander stands in for the brain that did the work: it has its name, and takes
// no turn.
type bystander struct{ name string }

// Name implements brain.Brain.
func (b bystander) Name() string { return b.name }

// Detect implements brain.Brain.
func (b bystander) Detect(context.Context) brain.Status { return brain.Status{} }

// Launch implements brain.Brain.
func (b bystander) Launch(brain.Turn) (brain.Launch, error) { return brain.Launch{}, errStartsNone }

// Converse implements brain.Brain.
func (b bystander) Converse(context.Context, brain.Process, brain.Turn, func(brain.Event)) error {
	return errStartsNone
}
