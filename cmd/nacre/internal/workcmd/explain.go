package workcmd

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type explainCommand Commands

func (cmd explainCommand) command() *cobra.Command {
	var run assembly.Run
	var group string
	c := &cobra.Command{
		Use: "explain [TASK]", Short: "print what a run would be able to do, and what this machine cannot enforce",
		Long: `Prints what nacre run would let an agent see, write, reach, spend and use: the posture as
it is computed from the config, and nothing else. Nothing of it is started; exit 3 says why no
sandbox can be.`,
		Example: "  nacre explain --project .\n  nacre explain --egress proxy.example.com:443 --json",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("one task, please: put it in quotes")
			}
			if err := checkNames(group, ""); err != nil {
				return err
			}
			run.Group, run.Task = nacre.Group(group), strings.Join(args, "")
			return cmd.explain(c.Context(), run)
		},
	}
	c.Flags().StringVar(&run.Project, "project", ".", "git repository to work on")
	reachFlags(c.Flags(), &run.Egress)
	c.Flags().StringVar(&group, "group", "", "whose tools and policy apply (default main)")
	return c
}

func (cmd explainCommand) explain(ctx context.Context, run assembly.Run) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	e, err := rt.Explain(ctx, run)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(e)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("group", "%s", e.Group)
	p.Field("sealed by", "%s (%s)", e.Sandbox, e.Backend)
	for _, missing := range e.NotEnforced {
		p.Prose("not held  ", missing)
	}
	p.Field("writes", "a private clone of %s; nacre exec writes the folder itself", e.Project)
	p.Field("reaches", "%s", terminal.List(e.Egress, "nothing"))
	p.Field("decoys", "%s: credentials that open nothing; the use of one ends the run", strings.Join(e.Decoys, ", "))
	for _, c := range e.Posture.Credentials {
		if c.Inside == "" { // of the others the next line says more
			p.Field("credential", "%s", c)
		}
	}
	if len(e.Locked) > 0 {
		p.Field("locked", "%s (nacre power list)", strings.Join(e.Locked, ", "))
	}
	if len(e.Inside) > 0 {
		p.Field("inside", "credentials that its agent can read: %s", strings.Join(e.Inside, ", "))
	}
	if len(e.Folders) > 0 {
		p.Field("folders", "shown when its agent asks for them: %s (nacre learn --list)", strings.Join(e.Folders, ", "))
	}
	if e.Model != "" {
		p.Field("model", "%s, with the key from %s that stays outside, up to $%s", e.Model, e.Key, cmp.Or(e.BudgetUSD, "5.00"))
	}
	if left := e.LeftToday(); left != "" && e.Model != "" {
		p.Field("today", "%s", left)
	}
	if len(e.VendorTools) > 0 && e.Model != "" {
		p.Field("vendor", "%s, outside of the sandbox and of its egress", strings.Join(e.VendorTools, ", "))
	}
	p.Field("time", "%s", e.Posture.Limits.Wall)
	p.Line("")
	var mounts [][]string
	for _, m := range e.Posture.Mounts {
		mounts = append(mounts, []string{m.Target, m.Kind.String(), m.Source})
	}
	p.Table([]string{"INSIDE", "HOW", "FROM"}, mounts)
	p.Line("")
	tools := [][]string{}
	for _, t := range e.Tools {
		tools = append(tools, []string{string(t.Tool), t.Safety.String(), t.Verdict.String(), t.Rule})
	}
	p.Table([]string{"TOOL", "CLASS", "UNTAINTED", "BY"}, tools)
	for _, text := range e.Idle {
		p.Mark("warn", "", text)
	}
	return nil
}
