package main

import (
	"context"

	"github.com/spf13/cobra"
)

// pluginCommand holds everything about plugins: who looks at them, who writes
// them and who installs them have a file each.
func (a *app) pluginCommand() *cobra.Command {
	c := group("plugin", "see what plugins there are, and what they may reach")
	c.AddCommand(a.pluginListCommand())
	return c
}

func (a *app) pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list plugins, their tools, and what of their wants is confirmed", Args: noArguments,
		Example: "  nacre plugin list",
		RunE:    func(c *cobra.Command, _ []string) error { return a.listPlugins(c.Context()) },
	}
}

func (a *app) listPlugins(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	list, err := rt.Plugins()
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, list)
	}
	rows := make([][]string, 0, len(list))
	for _, p := range list {
		rows = append(rows, []string{string(p.Name), p.Version, p.State})
	}
	a.printer(a.stdout).Table([]string{"PLUGIN", "VERSION", "STATE"}, rows)
	return nil
}
