package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/hookcmd"
)

func (n nacre) doctorCommand() *cobra.Command {
	var (
		still, live, proving, probing bool
		project                       string
	)
	c := &cobra.Command{
		Use: "doctor", Short: "try each part of this installation, and list what is not enforced", Args: command.NoArguments,
		Long: `Each part is tried. Each brain that is installed is given a turn, sealed, with a
scripted model in place of its own: it must ask for what it may not have, and not
get it. No key is needed for that, and nothing is spent. Each plugin that is in use is
started as a session starts it.

--prove plays escapes against this machine instead: what a hostile program would try
in a sandbox, around the egress rules of this configuration, with files of the project
that programs of this machine obey, and in installations of which a part is broken.
Each is tried once more where nothing holds it, where it must get through. It reads and
harms nothing but decoys of its own, reaches no network, and takes about a minute. Exit
4 when one gets through, or proves nothing.`,
		Example: "  nacre doctor\n  nacre doctor --no-turns   # start no brain and no plugin\n  nacre doctor --live       # ask plugins whether their credentials work\n" +
			"  nacre doctor --prove --project .",
		RunE: func(c *cobra.Command, _ []string) error {
			if proving {
				return n.prove(c.Context(), project)
			}
			if project != "" {
				return command.Usage("--project names the project of --prove")
			}
			return n.doctor(c.Context(), !still, live, probing)
		},
	}
	c.Flags().BoolVar(&proving, "prove", false, "play escapes, egress bypasses, planted files and broken installations against this machine, with decoys")
	c.Flags().StringVar(&project, "project", "", "the project whose files --prove tries to change; the folder that you are in where absent")
	c.Flags().BoolVar(&probing, "probe", false, "mint each credential that is minted once, and revoke it: it uses the network")
	c.Flags().BoolVar(&live, "live", false, "start the plugins that can verify themselves and ask them: they use their credentials and the network")
	c.Flags().BoolVar(&still, "no-turns", false, "do not give the brains a turn, and do not start plugins")
	return c
}

func (n nacre) doctor(ctx context.Context, turns, live, probing bool) error {
	rt, err := n.open(ctx)
	if err != nil {
		return err
	}
	findings := append(rt.Doctor(ctx, turns), hookcmd.Commands{Env: n.env}.Findings(ctx)...)
	if live {
		findings = append(findings, rt.VerifyPlugins(ctx)...)
	}
	if probing {
		findings = append(findings, assembly.ProbeCredentials(ctx, rt)...)
	}
	if n.env.JSON {
		if err := n.env.PrintJSON(findings); err != nil {
			return err
		}
	} else {
		n.printFindings(findings)
	}
	for _, f := range findings {
		if f.Status == "fail" {
			return command.Exit(command.ExitDoctor)
		}
	}
	return nil
}

func (n nacre) printFindings(findings []assembly.Finding) {
	p := n.env.Printer(n.env.Stdout)
	marks := map[string]string{"ok": "ok", "warn": "warn", "fail": "denied"}
	for _, f := range findings {
		text := f.Text
		if f.Fix != "" {
			text += " · " + f.Fix
		}
		p.Mark(marks[f.Status], f.Name, text)
	}
}
