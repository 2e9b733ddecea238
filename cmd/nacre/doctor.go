package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
)

func (a *app) doctorCommand() *cobra.Command {
	var still, live bool
	c := &cobra.Command{
		Use: "doctor", Short: "try each part of this installation, and list what is not enforced", Args: noArguments,
		Long: `Each part is tried. Each brain that is installed is given a turn, sealed, with a
scripted model in place of its own: it must ask for what it may not have, and not
get it. No key is needed for that, and nothing is spent.`,
		Example: "  nacre doctor\n  nacre doctor --no-turns   # start no brain\n  nacre doctor --live       # ask plugins whether their credentials work",
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), !still, live) },
	}
	c.Flags().BoolVar(&live, "live", false, "start the plugins that can verify themselves and ask them: they use their credentials and the network")
	c.Flags().BoolVar(&still, "no-turns", false, "do not give the brains a turn")
	return c
}

func (a *app) doctor(ctx context.Context, turns, live bool) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	findings := append(rt.Doctor(ctx, turns), a.checkHooks(ctx)...)
	if live {
		findings = append(findings, rt.VerifyPlugins(ctx)...)
	}
	if a.json {
		if err := printJSON(a.stdout, findings); err != nil {
			return err
		}
	} else {
		a.printFindings(findings)
	}
	for _, f := range findings {
		if f.Status == "fail" {
			return &exitError{code: exitDoctor}
		}
	}
	return nil
}

func (a *app) printFindings(findings []assembly.Finding) {
	p := a.printer(a.stdout)
	marks := map[string]string{"ok": "ok", "warn": "warn", "fail": "denied"}
	for _, f := range findings {
		text := f.Text
		if f.Fix != "" {
			text += " · " + f.Fix
		}
		p.Mark(marks[f.Status], f.Name, text)
	}
}
