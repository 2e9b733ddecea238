package memorycmd

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/terminal"
)

func (cmd memoryCommand) reviewCommand() *cobra.Command {
	limit := 100
	c := &cobra.Command{
		Use: "review", Short: "decide on what your sessions stored: trust it, or decline it", Args: command.NoArguments,
		Long: `Shows the entries that sessions stored which had listened to nobody but you, and
that you have neither trusted nor declined. On a terminal it asks about each: what
you trust may enter the brief of later sessions, what you decline counts as an
outsider's words when it is recalled, and what you leave waits. Elsewhere it lists
them: nacre memory trust and nacre memory untrust decide.`,
		Example: "  nacre memory review\n  nacre memory review --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return command.Usage("--limit is %d: write 1 or more", limit)
			}
			return cmd.withMemory(c, func(ctx context.Context, m memories) error { return cmd.review(ctx, m, limit) })
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "the most entries shown")
	return c
}

func (cmd memoryCommand) review(ctx context.Context, m memories, limit int) error {
	list, err := m.List(ctx, memory.Filter{Waiting: true, Limit: limit})
	if err != nil {
		return err
	}
	switch {
	case len(list) == 0 && !cmd.JSON:
		cmd.Printer(cmd.Stdout).Field("nothing", "waits for a review")
		return nil
	case cmd.JSON || !terminal.Is(cmd.Stdin):
		return cmd.printMemories(list)
	}
	return cmd.decideEach(ctx, m, list)
}

// decideEach asks a person about one entry after the other, until they answer no more.
func (cmd memoryCommand) decideEach(ctx context.Context, m memories, list []memory.Entry) error {
	answers := bufio.NewReader(cmd.Typed())
	for n, e := range list {
		p := cmd.Printer(cmd.Stdout)
		p.Field(fmt.Sprintf("%d of %d", n+1, len(list)), "%s · %s · session %s · %s", e.ID, e.Type, e.Provenance.Session, e.CreatedAt)
		for line := range strings.Lines(e.Content) {
			p.Line("%s", strings.TrimRight(line, "\n"))
		}
		p.Line("trust it? y, n to decline it, or return to leave it")
		answer, err := answers.ReadString('\n')
		if err != nil {
			return nil //nolint:nilerr // nobody answers any more: the rest waits
		}
		if err := cmd.decide(ctx, m, e.ID, strings.ToLower(strings.TrimSpace(answer))); err != nil {
			return err
		}
	}
	return nil
}

// decide does what an answer says; any other than y and n leaves the entry.
func (cmd memoryCommand) decide(ctx context.Context, m memories, id, answer string) error {
	p := cmd.Printer(cmd.Stdout)
	switch answer {
	case "y", "yes":
		p.Field("trusted", "%s", id)
		return m.setTrust(ctx, "trust", id, nacre.Trusted)
	case "n", "no":
		p.Field("declined", "%s", id)
		return m.setTrust(ctx, "decline", id, nacre.Untrusted)
	}
	return nil
}
