package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// completionTime is how long a person who pressed the tab key waits at most.
const completionTime = 2 * time.Second

// Offered is one word that a command line may go on with, and what it stands for.
type Offered struct{ Word, About string }

// Completes makes a command offer the words of list for its first argument. A list
// that cannot be made offers nothing: an error has no place in a command line.
func Completes(c *cobra.Command, list func(context.Context) ([]Offered, error)) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offers(c, list, begun)
	}
}

// CompletesFlag makes a command offer the words of list for a flag that it has.
func CompletesFlag(c *cobra.Command, flag string, list func(context.Context) ([]Offered, error)) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offers(c, list, begun)
	})
	if err != nil {
		panic(err) // there is no such flag, or it has its words already
	}
}

// offers are what begins as the last word does. What words are about was written by
// others, so a shell gets it escaped.
func offers(c *cobra.Command, list func(context.Context) ([]Offered, error), begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	all, _ := list(ctx) // with an error, what could be read
	var fitting []cobra.Completion
	for _, o := range all {
		if strings.HasPrefix(o.Word, begun) {
			fitting = append(fitting, cobra.CompletionWithDesc(o.Word, terminal.Escape(o.About)))
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
