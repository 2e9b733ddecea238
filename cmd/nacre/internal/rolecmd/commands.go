// Package rolecmd is the commands about what agents are held by: capability atoms
// and the roles that are made of them. They list, show and fork, hold one tool call
// or a finished work tree against atoms, and start no agent.
package rolecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Commands makes the commands of this room. Both fields are needed.
type Commands struct {
	*command.Env
	// Open assembles an installation's parts, and starts nothing.
	Open func(context.Context) (*assembly.Runtime, error)
}

// Capability is nacre capability, with the commands below it.
func (c Commands) Capability() *cobra.Command { return capabilityCommand(c).command() }

// Role is nacre role, with the commands below it.
func (c Commands) Role() *cobra.Command { return roleCommand(c).command() }
