package plugincmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

type lookCommand Commands

func (cmd lookCommand) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list plugins, their tools, and what of their wants is confirmed", Args: command.NoArguments,
		Example: "  nacre plugin list",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.listPlugins(c.Context()) },
	}
}

func (cmd lookCommand) show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "show one plugin: what it wants, what it gets, and what to do", Args: command.OneArgument("a plugin"),
		Example: "  nacre plugin show reminders",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.showPlugin(c.Context(), args[0]) },
	}
}

func (cmd lookCommand) reload() *cobra.Command {
	return &cobra.Command{
		Use: "reload NAME", Short: "replace a plugin by what its folder is now, wherever it runs", Args: command.OneArgument("a plugin"),
		Long: `A plugin that does not start again goes on as it was. Sessions that are at work take
what is new, and ask again for what was agreed to for the old; one that sees the
project is the exception: where its files have changed, the next session has them.`,
		Example: "  nacre plugin reload reminders",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.reloadPlugin(c.Context(), args[0]) },
	}
}

func (cmd lookCommand) listPlugins(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	list, err := rt.Plugins()
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(list)
	}
	if len(list) == 0 {
		cmd.Printer(cmd.Stdout).Line("no plugin is in %s", strings.Join(rt.PluginPlaces().Folders, " or "))
		return nil
	}
	rows := make([][]string, 0, len(list))
	for _, p := range list {
		rows = append(rows, []string{string(p.Name), p.Version, stateOf(p), names(p.Tools), strings.Join(wants(p.Confirmed), ", "), p.Dir})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"PLUGIN", "VERSION", "STATE", "TOOLS", "MAY REACH", "WHERE"}, rows)
	return nil
}

// stateOf is a plugin's state in a few words.
func stateOf(p assembly.PluginStatus) string {
	switch p.State {
	case assembly.PluginFailed:
		return p.State + " " + p.Category
	case assembly.PluginWants:
		return "wants more"
	}
	return p.State
}

func names(tools []nacre.ToolName) string {
	texts := make([]string, 0, len(tools))
	for _, t := range tools {
		texts = append(texts, string(t))
	}
	return strings.Join(texts, " ")
}

// wants are what a plugin reaches, or wants to, one text each.
func wants(w assembly.PluginAccess) []string {
	texts := append([]string{}, w.Hosts...)
	for _, key := range w.Credentials {
		texts = append(texts, "credential "+key)
	}
	for _, entry := range w.Env {
		name, key, _ := strings.Cut(entry, "=")
		texts = append(texts, "credential "+key+" in the environment as "+name)
	}
	if w.Project != "" {
		texts = append(texts, "project ("+w.Project+")")
	}
	if w.Listen != "" {
		texts = append(texts, "listens at "+w.Listen)
	}
	return texts
}

// onePlugin reads a plugin's name from the command line.
func (c Commands) onePlugin(ctx context.Context, arg string) (*assembly.Runtime, nacre.PluginName, error) {
	name, err := nacre.ParsePluginName(arg)
	if err != nil {
		return nil, "", command.UsageOf(err)
	}
	rt, err := c.Open(ctx)
	return rt, name, err
}

func (cmd lookCommand) showPlugin(ctx context.Context, arg string) error {
	rt, name, err := Commands(cmd).onePlugin(ctx, arg)
	if err != nil {
		return err
	}
	p, err := rt.Plugin(name)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(p)
	}
	out := cmd.Printer(cmd.Stdout)
	out.Field("plugin", "%s %s · %s", p.Name, p.Version, stateOf(p))
	out.Field("what", "%s", p.Description)
	out.Field("where", "%s", p.Dir)
	for _, r := range p.Rules {
		risk := ""
		if r.Asked {
			risk = " · asked each time"
		}
		out.Field("tool", "%s · %s%s · at most %d in %d s · each within %d s · its result is %s", r.Tool, r.Class, risk, r.Calls, r.Seconds, r.Deadline, r.Returns)
	}
	if p.Reason != "" {
		out.Field("failed", "%s", p.Reason)
	}
	for _, text := range wants(p.Wants) {
		out.Field("wants", "%s", text)
	}
	for _, text := range wants(p.Confirmed) {
		out.Field("gets", "%s", text)
	}
	for _, text := range p.Missing {
		out.Field("missing", "%s", text)
	}
	return nil
}

func (cmd lookCommand) reloadPlugin(ctx context.Context, arg string) error {
	rt, name, err := Commands(cmd).onePlugin(ctx, arg)
	if err != nil {
		return err
	}
	reloads, err := rt.ReloadPlugin(ctx, name)
	if err != nil {
		return err
	}
	if cmd.JSON {
		if err := cmd.PrintJSON(reloads); err != nil {
			return err
		}
	} else {
		cmd.printReloads(reloads)
	}
	for _, r := range reloads {
		if r.Error != "" {
			return command.Exit(command.ExitFailed)
		}
	}
	return nil
}

func (cmd lookCommand) printReloads(reloads []assembly.PluginReload) {
	p := cmd.Printer(cmd.Stdout)
	if len(reloads) == 0 {
		p.Line("nothing runs now: whatever starts next has the plugin as it is")
	}
	for _, r := range reloads {
		if r.Error != "" {
			p.Mark("denied", string(r.Session), r.Error)
			continue
		}
		p.Mark("ok", string(r.Session), "reloaded")
	}
}
