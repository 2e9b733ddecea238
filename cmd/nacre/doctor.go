package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/hookcmd"
)

func (n nacre) doctorCommand() *cobra.Command {
	var (
		how     examination
		proving bool
		project string
	)
	c := &cobra.Command{
		Use: "doctor", Short: "try each part of this installation, and list what is not enforced", Args: command.NoArguments,
		Long: `Each part is tried: exit 4 where one fails. Each brain that is installed is given a turn, sealed, with a
scripted model in place of its own: it must ask for what it may not have, and not
get it. No key is needed for that, and nothing is spent. The egress proxy is tried with
the rules of config.toml, on decoys. Each plugin that is in use is started as a session
starts it.

--prove plays escapes against this machine instead: what a hostile program would try
in a sandbox, around the egress rules of this configuration, with files of the project
that programs of this machine obey, and in installations of which a part is broken.
Each is tried once more where nothing holds it, where it must get through. It reads and
harms nothing but decoys of its own, reaches no network, and takes about a minute. Exit
4 when one gets through, or proves nothing; 3 when no sandbox starts.

--fix repairs what can be repaired without a loss, and asks before each: what killed
sessions left open, old sessions that take too much room (any, where the disk is full), a
plugin that collides with another, the brain of config.toml that is not installed, a clock
that is behind. Everything is tried again then. A broken chain of records is never
repaired: it is kept as it is, and a new one begun. --yes answers for what nacre made
itself; everything else wants a person at a terminal.`,
		Example: "  nacre doctor\n  nacre doctor --no-turns   # start no brain and no plugin\n  nacre doctor --fix        # repair what can be repaired, after asking\n  nacre doctor --live       # ask plugins whether their credentials work\n" +
			"  nacre doctor --prove --project .",
		RunE: func(c *cobra.Command, _ []string) error {
			if proving {
				return n.prove(c.Context(), project)
			}
			if project != "" {
				return command.Usage("--project names the project of --prove")
			}
			if how.yes && !how.fix {
				return command.Usage("--yes answers the questions of --fix")
			}
			return n.doctor(c.Context(), how)
		},
	}
	c.Flags().BoolVar(&proving, "prove", false, "play escapes, egress bypasses, planted files and broken installations against this machine, with decoys")
	c.Flags().StringVar(&project, "project", "", "the project whose files --prove tries to change; the folder that you are in where absent")
	c.Flags().BoolVar(&how.fix, "fix", false, "repair what can be repaired, after asking, and try again")
	c.Flags().BoolVar(&how.yes, "yes", false, "with --fix: repair without asking, but for what a person has to choose")
	c.Flags().BoolVar(&how.probing, "probe", false, "mint each credential that is minted once, and revoke it: it uses the network")
	c.Flags().BoolVar(&how.live, "live", false, "start the plugins that can verify themselves and ask them: they use their credentials and the network")
	c.Flags().BoolVar(&how.still, "no-turns", false, "do not give the brains a turn, and do not start plugins")
	return c
}

// examination says what doctor tries, and whether it repairs.
type examination struct{ still, live, probing, fix, yes bool }

func (n nacre) doctor(ctx context.Context, how examination) error {
	rt, err := n.open(ctx)
	if err != nil {
		return err
	}
	if how.fix && !how.yes && !n.env.CanAsk() {
		return command.Usage("--fix asks at a terminal: add --yes to repair without asking")
	}
	findings, failed := n.examine(ctx, rt, how), false
	if how.fix {
		repaired, left, err := n.repair(ctx, findings, how.yes)
		if err != nil {
			return err
		}
		if repaired {
			findings = n.examine(ctx, rt, how)
		}
		failed = left
	}
	if n.env.JSON {
		if err := n.env.PrintJSON(findings); err != nil {
			return err
		}
	} else {
		n.printFindings(findings)
	}
	if failed || slices.ContainsFunc(findings, func(f assembly.Finding) bool { return f.Status == "fail" }) {
		return command.Exit(command.ExitDoctor)
	}
	return nil
}

func (n nacre) examine(ctx context.Context, rt *assembly.Runtime, how examination) []assembly.Finding {
	findings := append(rt.Doctor(ctx, !how.still), hookcmd.Commands{Env: n.env}.Findings(ctx)...)
	if how.live {
		findings = append(findings, rt.VerifyPlugins(ctx)...)
	}
	if how.probing {
		findings = append(findings, assembly.ProbeCredentials(ctx, rt)...)
	}
	return findings
}

// repair does what the findings offer and a person agrees to, and tells of each on the
// standard error: the standard output is the findings'. One that fails keeps no other from being tried.
func (n nacre) repair(ctx context.Context, findings []assembly.Finding, yes bool) (changed, failed bool, err error) {
	p := n.env.Printer(n.env.Stderr)
	for _, f := range findings {
		if f.Repair == nil || f.Moot != nil && f.Moot() {
			continue
		}
		p.Mark("warn", f.Name, f.Text)
		if f.Choice && yes {
			p.Mark("look", f.Name, "not repaired, because a person has to choose it at a terminal, without --yes: "+f.Offer)
			continue
		}
		if !yes {
			agreed, err := n.env.Agrees(ctx, n.env.Stderr, "         "+f.Offer+"? [y/N] ")
			if err != nil {
				return changed, failed, err
			}
			if !agreed {
				continue
			}
		}
		if err := f.Repair(ctx, func(text string) { p.Mark("look", f.Name, text) }); err != nil {
			p.Mark("denied", f.Name, "not repaired: "+err.Error())
			failed = true
			continue
		}
		p.Mark("ok", f.Name, "repaired: "+f.Offer)
		changed = true
	}
	return changed, failed, nil
}

func (n nacre) printFindings(findings []assembly.Finding) {
	p := n.env.Printer(n.env.Stdout)
	marks := map[string]string{"ok": "ok", "warn": "warn", "fail": "denied"}
	for _, f := range findings {
		text := strings.ReplaceAll(f.Text, "\n", "; ") // several causes, each on a line of its own
		if f.Fix != "" {
			text += " · " + f.Fix
		}
		p.Mark(marks[f.Status], f.Name, text)
	}
}
