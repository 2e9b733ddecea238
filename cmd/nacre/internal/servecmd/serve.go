package servecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/plugin"
)

type serveCommand Commands

const serveHelp = `Serve runs what waits for the world: the channels of plugins, schedules and the event bus. A message whose
sender or chat has a [[route]] in config.toml, and a schedule that is due, start an agent, sealed, for its
group. It goes on until Ctrl-C, SIGTERM or nacre sessions stop; what was begun then ends or goes on later, and the exit code is 0.

With [store] in config.toml, several nacre serve --node NAME share the messages that they took: where one dies, another carries on.

Questions of its agents are answered from another terminal: nacre approvals list.`

func (cmd serveCommand) command() *cobra.Command {
	var node string
	made := &cobra.Command{
		Use: "serve", Short: "take messages, keep schedules, and start agents for them", Long: serveHelp, Args: command.NoArguments,
		Example: "  nacre serve\n  nacre serve --json | jq .topic",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return cmd.serve(c.Context(), r, node)
		},
	}
	made.Flags().StringVar(&node, "node", "", "this process's name among the nodes that share a [store]")
	return made
}

// failed says which plugins do not run, by their names. Most have none of the credentials that
// they want, such as those of chats that nobody set up: they share a line.
func failed(categories map[nacre.PluginName]string) (lines []string) {
	var locked []string
	for _, name := range slices.Sorted(maps.Keys(categories)) {
		if categories[name] == plugin.CategoryAuth {
			locked = append(locked, string(name))
			continue
		}
		lines = append(lines, fmt.Sprintf("plugin %s failed: %s; see nacre plugin list", name, categories[name]))
	}
	if locked != nil {
		lines = append(lines, "without a credential that works: "+strings.Join(locked, ", ")+"; nacre plugin setup NAME gives one")
	}
	return lines
}

func (cmd serveCommand) serve(ctx context.Context, r *assembly.Runtime, node string) error {
	out := cmd.Printer(cmd.Stdout)
	if _, err := assembly.RetainSessions(ctx, r); err != nil {
		cmd.Printer(cmd.Stderr).Mark("warn", "old", "old sessions could not be removed: "+err.Error())
	}
	defer context.AfterFunc(ctx, func() { cmd.tellManager(ctx, "STOPPING=1") })()
	defer assembly.Rest(ctx)()
	return r.Serve(ctx, assembly.Serve{
		Node: node,
		Started: func(s assembly.Serving) {
			cmd.tellManager(ctx, "READY=1")
			if cmd.JSON {
				_ = cmd.PrintJSON(s) // a reader that is gone loses it
				return
			}
			out.Line("serving · session %s · %s", s.Session, served(s))
			for _, line := range failed(s.Failed) {
				out.Line("%s", line)
			}
			for name, at := range s.Listening {
				out.Line("plugin %s takes connections at %s", name, at)
			}
			for who, why := range s.Elsewhere {
				why, _, _ = strings.Cut(why, "\n")
				out.Line("%s is not served here: %s", who, terminal.Escape(why))
			}
		},
		Warn: func(text string) { cmd.Printer(cmd.Stderr).Line("%s", terminal.Escape(text)) },
		Event: func(e plugin.Envelope) {
			if cmd.JSON {
				_ = cmd.PrintJSON(e) // a reader that is gone loses it
				return
			}
			out.Line("%s  %-16s %-10s %s", e.Timestamp.Local().Format("15:04:05"), e.Topic, e.Group, terminal.Escape(about(e)))
		},
	})
}

func served(s assembly.Serving) string {
	names := make([]string, 0, len(s.Plugins))
	for _, name := range s.Plugins {
		names = append(names, string(name))
	}
	if len(names) == 0 {
		names = []string{"no plugins with channels"}
	}
	return fmt.Sprintf("%s · %d routes", strings.Join(names, ", "), s.Routes)
}

// about is what a person wants to know of an event, in a line.
func about(e plugin.Envelope) string {
	var p struct{ Channel, Sender, Title, Session, Outcome, Plugin string }
	if json.Unmarshal(e.Payload, &p) != nil {
		return "from " + e.Source
	}
	var parts []string
	for _, part := range []string{p.Channel, p.Sender, p.Plugin, p.Session, p.Title, p.Outcome} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " · ")
}
