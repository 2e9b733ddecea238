package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "try each part of this installation, and list what is not enforced", Args: noArguments,
		Example: "  nacre doctor",
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	findings := rt.Doctor(ctx)
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
