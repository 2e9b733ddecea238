// Package plugincmd is the commands about plugins: for those who look at them, who
// write them, who install them and who give them credentials.
package plugincmd

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

// Plugin is nacre plugin, with the commands below it.
func (c Commands) Plugin() *cobra.Command {
	look, author, install, setup := lookCommand(c), authorCommand(c), installCommand(c), setupCommand(c)
	named := []*cobra.Command{look.show(), look.reload(), setup.one(), install.update(), install.rollback(), install.remove(), install.confirm()}
	for _, one := range named {
		command.Completes(one, c.names)
	}
	group := command.Group("plugin", "see what plugins there are, and what they may reach",
		look.list(), author.scaffold(), author.validate(), author.test(), install.install())
	group.AddCommand(named...)
	return group
}

// names are the plugins that there are, for completion.
func (c Commands) names(ctx context.Context) ([]command.Offered, error) {
	rt, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := rt.Plugins()
	offered := make([]command.Offered, 0, len(list))
	for _, p := range list {
		offered = append(offered, command.Offered{Word: string(p.Name), About: stateOf(p)})
	}
	return offered, err
}

// Setup is nacre setup, which gives all plugins what they lack.
func (c Commands) Setup() *cobra.Command { return (setupCommand(c)).all() }
