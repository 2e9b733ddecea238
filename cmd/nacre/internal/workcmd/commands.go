// Package workcmd is the commands that put something to work sealed. exec starts a command of the
// user's, run an agent with a task in words, and task an agent in a role. explain says beforehand
// what such work could do.
//
// It reads the command line, shows the work as it happens and turns its end into an
// exit code. What is done is done by the installation.
package workcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Commands makes the commands of this room. Both fields are needed.
type Commands struct {
	*command.Env
	// Open assembles an installation's parts, and starts nothing.
	Open func(context.Context) (*assembly.Runtime, error)
}

// Exec is nacre exec.
func (c Commands) Exec() *cobra.Command { return execCommand(c).command() }

// Run is nacre run.
func (c Commands) Run() *cobra.Command { return runCommand(c).command() }

// Again lets an agent work on a task that it was given before, as nacre run does.
func (c Commands) Again(ctx context.Context, run assembly.Run) error {
	return runCommand(c).run(ctx, run, runOptions{})
}

// Repl is nacre repl.
func (c Commands) Repl() *cobra.Command { return replCommand(c).command() }

// Explain is nacre explain.
func (c Commands) Explain() *cobra.Command { return explainCommand(c).command() }

// Task is nacre task, with the commands below it.
func (c Commands) Task() *cobra.Command { return taskCommand(c).command() }

// checkNames refuses a group or session that could not be one.
func checkNames(group, session string) error {
	if group != "" {
		if _, err := nacre.ParseGroup(group); err != nil {
			return command.UsageOf(err)
		}
	}
	if session != "" {
		if _, err := nacre.ParseSessionID(session); err != nil {
			return command.UsageOf(err)
		}
	}
	return nil
}

func checkTime(wall time.Duration) error {
	if wall < 0 {
		return command.Usage("--time %s: write how long it may take, such as 30m", wall)
	}
	return nil
}

const heldHelp = "changes that programs of this machine obey: wait lets all wait for you, leave-out lands the rest, take lands them (default wait)"

// budgetHelp is of the flag that bounds what a run may cost.
const budgetHelp = "what the run may cost, in dollars (default: 30 % more than tasks like it cost, where three are known); at most budget_usd"

// maxTries is how often an agent may be told that its checks failed.
const maxTries = 10

func checkTries(n int) error {
	if n < 1 || n > maxTries {
		return command.Usage("--tries %d: write 1 to %d", n, maxTries)
	}
	return nil
}
