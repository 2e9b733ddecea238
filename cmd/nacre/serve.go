package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/display"
	"github.com/nacre-dev/nacre/plugin"
)

const serveHelp = `Serve runs what waits for the world: the channels of plugins, schedules and the event bus. A message whose
sender or chat has a [[route]] in config.toml, and a schedule that is due, start an agent, sealed, for its
group. It goes on until Ctrl-C, SIGTERM or nacre sessions stop; what was begun then ends or goes on later, and the exit code is 0.

Questions of its agents are answered from another terminal: nacre approvals list.`

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "take messages, keep schedules, and start agents for them", Long: serveHelp, Args: noArguments,
		Example: "  nacre serve\n  nacre serve --json | jq .topic",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := a.open(c.Context())
			if err != nil {
				return err
			}
			return a.serve(c.Context(), r)
		},
	}
}

func (a *app) serve(ctx context.Context, r *assembly.Runtime) error {
	out := a.printer(a.stdout)
	return r.Serve(ctx, assembly.Serve{
		Started: func(s assembly.Serving) {
			if a.json {
				_ = printJSON(a.stdout, s) // a reader that is gone loses it
				return
			}
			out.Line("serving · session %s · %s", s.Session, served(s))
			for name, category := range s.Failed {
				out.Line("plugin %s failed: %s; see nacre plugin list", name, category)
			}
			for name, at := range s.Listening {
				out.Line("plugin %s takes connections at %s", name, at)
			}
			for who, why := range s.Elsewhere {
				why, _, _ = strings.Cut(why, "\n")
				out.Line("%s is not served here: %s", who, display.Escape(why))
			}
		},
		Warn: func(text string) { a.printer(a.stderr).Line("%s", display.Escape(text)) },
		Event: func(e plugin.Envelope) {
			if a.json {
				_ = printJSON(a.stdout, e) // a reader that is gone loses it
				return
			}
			out.Line("%s  %-16s %-10s %s", e.Timestamp.Local().Format("15:04:05"), e.Topic, e.Group, display.Escape(about(e)))
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
