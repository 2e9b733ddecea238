package policycmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/replay"
)

func (cmd policyCommand) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "replay FILE AUDIT", Short: "show what a policy would have decided on what happened",
		Long: `Reads the calls of AUDIT, the folder of a chain, a folder of chains, or records exported
as JSON lines, and shows which decisions the policy would change. A decision that
hangs on values that no record keeps is shown as undecidable, and never guessed.
Nothing is verified here: see nacre audit verify. Exit 0 whatever changes, 1 where
AUDIT cannot be read to its end, 2 where the policy cannot be used.`,
		Example: "  nacre policy replay new.toml ~/.local/state/nacre/audit", Args: command.TwoArguments("a policy and an audit"),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.replayPolicy(args[0], args[1]) },
	}
}

func (cmd policyCommand) replayPolicy(path, from string) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	result := replay.New(p, nil)
	if err := replay.Read(from, result.Take); err != nil {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("%s: %w", from, err))
	}
	if cmd.JSON {
		return cmd.PrintJSON(result)
	}
	cmd.printReplay(result)
	return nil
}

func (cmd policyCommand) printReplay(result *replay.Replay) {
	printer := cmd.Printer(cmd.Stdout)
	rows := make([][]string, 0, len(result.Changes))
	for _, c := range result.Changes {
		rows = append(rows, []string{fmt.Sprint(c.Calls), string(c.Capability), c.Was + " → " + c.WouldBe, c.Rule, strings.Join(c.Examples, " ")})
	}
	if len(rows) > 0 {
		printer.Table([]string{"calls", "capability", "decision", "rule", "examples"}, rows)
	}
	for _, condition := range slices.Sorted(maps.Keys(result.Undecided)) {
		printer.Line("undecidable, %d calls: %s looks at values that are not recorded", result.Undecided[condition], condition)
	}
	printer.Line("%d calls: %d decided as before, %d changed, %d undecidable, %d recorded without their request",
		result.Calls, result.Same, result.Changed, result.Undecidable, result.Unrecorded)
}
