package policycmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/config"
)

// Egress is nacre egress.
func (c Commands) Egress() *cobra.Command {
	return command.Group("egress", "what sessions may be allowed to reach", &cobra.Command{
		Use: "bundles", Short: "print the hosts that --allow NAME lets a session reach", Args: command.NoArguments,
		Long: `Prints the bundles of hosts that --allow NAME, or bundle:NAME in [egress] of
config.toml, lets a session reach. A host with methods and paths is opened by the
session's own authority, and asked nothing else; the others are reached by name
alone. Publishing is in none of them.`,
		Example: "  nacre egress bundles\n  nacre exec --project . --allow go,npm -- npm install",
		RunE:    func(*cobra.Command, []string) error { return c.bundles() },
	})
}

func (c Commands) bundles() error {
	all, err := config.Bundles()
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(all)
	}
	p := c.Printer(c.Stdout)
	for _, bundle := range all {
		p.Line("%-8s %s", bundle.Name, bundle.About)
		for _, host := range bundle.Hosts {
			p.Line("         %s", host.Host)
			for _, only := range host.Only {
				p.Line("           %s below %s", strings.Join(only.Methods, ", "), strings.Join(only.Paths, ", "))
			}
		}
	}
	return nil
}
