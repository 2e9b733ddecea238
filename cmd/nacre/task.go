package main

import "github.com/spf13/cobra"

func (a *app) taskCommand() *cobra.Command {
	return group("task", "hand tasks to agents: compose, prepare, spawn, verify, audit, merge, run",
		a.taskComposeCommand(), a.taskPrepareCommand(), a.taskSpawnCommand(), a.taskVerifyCommand(), a.taskAuditCommand(), a.taskMergeCommand(), a.taskRunCommand())
}
