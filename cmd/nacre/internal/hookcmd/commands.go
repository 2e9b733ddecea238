// Package hookcmd is the commands that hold Claude Code and Codex by a role where they run without
// a sandbox. hooks writes and looks after the agents' settings, and hook is the program that those
// settings call before every tool call.
//
// nacre hook opens no installation: it answers from what was pinned, or refuses.
package hookcmd

import (
	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Commands makes the commands of this room.
type Commands struct {
	*command.Env
}

// Hooks is nacre hooks, with the commands below it.
func (c Commands) Hooks() *cobra.Command { return hooksCommand(c).command() }

// Hook is nacre hook.
func (c Commands) Hook() *cobra.Command { return hookCommand(c).command() }
