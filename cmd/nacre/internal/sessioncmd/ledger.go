package sessioncmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type ledgerCommand Commands

func (cmd ledgerCommand) command() *cobra.Command {
	tree := &cobra.Command{
		Use: "tree", Short: "list runs below those on whose behalf they ran", Args: command.NoArguments, Example: "  nacre ledger tree",
		RunE: func(c *cobra.Command, _ []string) error {
			return cmd.withLedger(c.Context(), func(l *ledger.Ledger) error { return cmd.printTree(c.Context(), l) })
		},
	}
	descendants := &cobra.Command{
		Use: "descendants RUN", Short: "list what ran on behalf of a run, directly or through others", Args: command.OneArgument("an agent's id or a DNA"),
		Example: "  nacre ledger descendants a1",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withLedger(c.Context(), func(l *ledger.Ledger) error {
				list, err := l.Descendants(c.Context(), args[0])
				if err != nil {
					return err
				}
				return cmd.printRuns(list)
			})
		},
	}
	return command.Group("ledger", "what agents were asked, and what came of it", cmd.listCommand(), cmd.showCommand(), tree, descendants,
		cmd.decideCommand("accept", "say that a run's work holds", true), cmd.decideCommand("refuse", "say that a run's work does not hold", false))
}

// ledgerDecideCommand keeps a person's decision: with the host's own verdicts
// it is all that counts as a verified outcome (M-50).
func (cmd ledgerCommand) decideCommand(name, short string, held bool) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: name + " RUN", Short: short, Args: command.OneArgument("an agent's id or a DNA"),
		Long: `Keeps your decision on a run that has ended, under your name and with a record in the
audit. It counts as a verified outcome, as the verdict of a strong check does, and takes the
place of an earlier one. It moves no branch.`,
		Example: "  nacre ledger " + name + " fix-dates --reason \"read the diff\"",
		RunE: func(c *cobra.Command, args []string) error {
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return rt.Decide(c.Context(), args[0], held, command.Operator(), reason)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who read the ledger")
	return c
}

func (cmd ledgerCommand) listCommand() *cobra.Command {
	var status, prefix string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "list runs, the latest first", Args: command.NoArguments, Example: "  nacre ledger list --status failed\n  nacre ledger list --dna edit-local::",
		RunE: func(c *cobra.Command, _ []string) error {
			filter := ledger.Filter{DNA: prefix, Limit: limit}
			if limit < 1 {
				return command.Usage("--limit is %d: write 1 or more", limit)
			}
			if status != "" {
				var err error
				if filter.Status, err = ledger.ParseStatus(status); err != nil {
					return command.UsageOf(err)
				}
			}
			return cmd.withLedger(c.Context(), func(l *ledger.Ledger) error {
				list, err := l.List(c.Context(), filter)
				if err != nil {
					return err
				}
				return cmd.printRuns(list)
			})
		},
	}
	c.Flags().StringVar(&status, "status", "", "only runs that are running, interrupted, done, failed, merged or rejected")
	c.Flags().StringVar(&prefix, "dna", "", "only runs whose DNA begins with this")
	c.Flags().IntVar(&limit, "limit", ledger.MaxList, "the most runs listed")
	return c
}

func (cmd ledgerCommand) printRuns(list []ledger.Run) error {
	if cmd.JSON {
		return cmd.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, r := range list {
		rows = append(rows, []string{r.ID, string(r.Status), r.Outcome.String(), r.Role, r.Started, dollars(r.Cost), terminal.Summary(r.Summary)})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"agent", "status", "verified", "role", "started", "cost", "summary"}, rows)
	return nil
}

// withLedger is WithLedger, once what killed runs left is completed (F-96).
func (cmd ledgerCommand) withLedger(ctx context.Context, use func(*ledger.Ledger) error) error {
	if rt, err := cmd.Open(ctx); err == nil { // the ledger can be read without the rest
		Commands(cmd).settleRuns(ctx, rt)
	}
	return cmd.WithLedger(ctx, use)
}

// dollars are millionths of one, for people.
func dollars(micro int64) string { return fmt.Sprintf("$%.4f", float64(micro)/1e6) }

func (cmd ledgerCommand) printTree(ctx context.Context, l *ledger.Ledger) error {
	tree, err := l.Tree(ctx)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(tree)
	}
	cmd.printNodes(tree, "")
	return nil
}

func (cmd ledgerCommand) printNodes(nodes []*ledger.Node, indent string) {
	for _, n := range nodes {
		above := ""
		if indent == "" && n.Parent != "" {
			above = ", on behalf of " + n.Parent
		}
		cmd.Printer(cmd.Stdout).Line("%s%s  %s  %s, %s%s", indent, n.ID, n.Role, n.Status, n.Outcome, above)
		cmd.printNodes(n.Children, indent+"  ")
	}
}

func (cmd ledgerCommand) showCommand() *cobra.Command {
	var prompt bool
	c := &cobra.Command{
		Use: "show RUN", Short: "show a run: what was asked, what came of it, and where that is recorded", Args: command.OneArgument("an agent's id or a DNA"),
		Long: `Shows one run, by its DNA or, for an agent's latest, by its id: what it was asked as it
was pinned, what came of it, and the records of the audit chain that each step stands on.
A weak check is shown and does not count as verified.`,
		Example: "  nacre ledger show a1",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withLedger(c.Context(), func(l *ledger.Ledger) error {
				e, err := l.Show(c.Context(), args[0])
				if err != nil {
					return err
				}
				if cmd.JSON {
					return cmd.PrintJSON(e)
				}
				if prompt {
					_, err := io.WriteString(cmd.Stdout, e.Prompt)
					return err
				}
				cmd.showEntry(e)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&prompt, "prompt", false, "print the prompt as the agent was given it")
	return c
}

func (cmd ledgerCommand) showEntry(e ledger.Entry) {
	p := cmd.Printer(cmd.Stdout)
	p.Field("agent", "%s", e.ID)
	p.Field("dna", "%s", e.DNA)
	p.Field("role", "%s", e.Role)
	p.Field("parent", "%s", terminal.List(strings.Fields(e.Parent), "none"))
	p.Field("status", "%s", e.Status)
	p.Field("verified", "%s", e.Outcome)
	p.Field("session", "%s", e.Session)
	p.Field("branch", "%s", e.Branch)
	p.Field("started", "%s", e.Started)
	p.Field("finished", "%s", e.Finished)
	p.Field("brain", "%s %s", e.Provider, e.Model)
	p.Field("cost", "%s, %d tokens in, %d out", dollars(e.Cost), e.TokensIn, e.TokensOut)
	p.Field("spec", "%s", e.SpecSHA)
	for _, change := range e.Changes {
		p.Field("recorded", "%s %s · chain %s, record %d, %s", change.At, change.Status, change.Anchor.Chain, change.Anchor.Seq, change.Anchor.Hash)
		if change.Reason != "" {
			p.Prose("", change.Reason)
		}
	}
	if e.Summary != "" {
		p.Prose("summary", e.Summary)
	}
	p.Line("")
	if e.Forgotten {
		p.Line("what was asked was erased: nacre memory forget")
	}
	for line := range strings.Lines(e.Task) {
		p.Line("%s", strings.TrimRight(line, "\n"))
	}
}
