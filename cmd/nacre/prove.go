package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// prove is `nacre doctor --prove` (U-41).
func (n nacre) prove(ctx context.Context, project string) error {
	rt, err := n.open(ctx)
	if err != nil {
		return err
	}
	progress := n.env.Printer(n.env.Stderr)
	rows, stopped := assembly.Prove(ctx, rt, cmp.Or(project, "."), func(stage string) { progress.Mark("ok", "trying", stage) })
	if len(rows) == 0 {
		return stopped
	}
	if n.env.JSON {
		err = n.env.PrintJSON(rows)
	} else {
		err = n.printProof(rows)
	}
	if err = errors.Join(err, stopped); err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r assembly.ProofRow) bool { return !r.Outcome.Holds() }) {
		return command.Exit(command.ExitDoctor)
	}
	return nil
}

// printProof is a table of all that was tried, and then a line of what came of it.
func (n nacre) printProof(rows []assembly.ProofRow) error {
	table := tabwriter.NewWriter(n.env.Words(n.env.Stdout), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLASS\tTRIED\tOUTCOME\tBECAUSE\tWHERE NOTHING HOLDS IT") // Flush reports what fails
	count := map[string]int{}
	for _, r := range rows {
		count[string(r.Outcome)]++
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Class, r.Probe, r.Outcome, r.Reason, r.Control)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if without := count["not tried"]; without > 0 {
		if _, err := fmt.Fprintf(n.env.Stdout, "\n%d not tried: no sandbox starts here", without); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(n.env.Stdout, "\n%d tried: %d blocked, %d reported, %d not enforced on this machine, %d not testable on it, %d got through, %d unproven\n",
		len(rows)-count["not tried"], count["blocked"], count["reported"], count["not enforced"], count["not testable here"], count["got through"], count["unproven"])
	return err
}
