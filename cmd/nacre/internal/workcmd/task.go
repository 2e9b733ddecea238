package workcmd

import (
	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

type taskCommand Commands

func (cmd taskCommand) command() *cobra.Command {
	verify, audit, merge, run := cmd.verifyCommand(), cmd.auditCommand(), cmd.mergeCommand(), cmd.runCommand()
	for _, one := range []*cobra.Command{verify, audit, merge} {
		command.Completes(one, Commands(cmd).resumable)
	}
	command.CompletesFlag(run, "session", Commands(cmd).resumable)
	return command.Group("task", "hand tasks to agents: new, compose, prepare, spawn, verify, audit, merge, run",
		cmd.newCommand(), cmd.composeCommand(), cmd.prepareCommand(), cmd.spawnCommand(), verify, audit, merge, run)
}
