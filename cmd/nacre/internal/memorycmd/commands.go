// Package memorycmd is nacre memory. An operator looks at what a group's agents have learned,
// vouches for entries, moves them between installations, and erases them with all that derives from
// them.
package memorycmd

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

// Memory is nacre memory, with the commands below it.
func (c Commands) Memory() *cobra.Command { return memoryCommand(c).command() }
