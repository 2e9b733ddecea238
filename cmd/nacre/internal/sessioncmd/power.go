package sessioncmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

type powerCommand Commands

func (cmd powerCommand) command() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "list the powers, and where each stands", Args: command.NoArguments, Example: "  nacre power list",
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := cmd.standings(c)
			if err != nil {
				return err
			}
			if cmd.JSON {
				return cmd.PrintJSON(all)
			}
			rows := make([][]string, 0, len(all))
			for _, p := range all {
				rows = append(rows, []string{p.Name, standing(p), reaches(p)})
			}
			cmd.Printer(cmd.Stdout).Table([]string{"power", "stands", "reaches"}, rows)
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show POWER", Short: "show the evidence that a power stands on", Args: command.OneArgument("a power"), Example: "  nacre power show package-installation",
		RunE: func(c *cobra.Command, args []string) error {
			all, err := cmd.standings(c)
			if err != nil {
				return err
			}
			for _, p := range all {
				if p.Name == args[0] {
					return cmd.show(p)
				}
			}
			return command.Usage("there is no power %.60q: nacre power list names those there are", args[0])
		},
	}
	return command.Group("power", "what runs may be let reach by what earlier runs have shown", list, show, cmd.unlockCommand(), cmd.lockCommand())
}

func (cmd powerCommand) standings(c *cobra.Command) ([]assembly.PowerStanding, error) {
	rt, err := cmd.Open(c.Context())
	if err != nil {
		return nil, err
	}
	return assembly.Powers(c.Context(), rt)
}

// standing says in a line where a power stands.
func standing(p assembly.PowerStanding) string {
	switch {
	case !p.Until.IsZero():
		return p.State.String() + " until " + p.Until.Local().Format("2006-01-02 15:04")
	case len(p.Missing) > 0:
		return p.State.String() + ": " + strings.Join(p.Missing, ", ")
	}
	return p.State.String()
}

// reaches is what a power opens: hosts, and credentials.
func reaches(p assembly.PowerStanding) string {
	opens := slices.Clone(p.Hosts)
	for _, name := range p.Credentials {
		opens = append(opens, "credential "+name)
	}
	return strings.Join(opens, ", ")
}

func (cmd powerCommand) show(p assembly.PowerStanding) error {
	if cmd.JSON {
		return cmd.PrintJSON(p)
	}
	out := cmd.Printer(cmd.Stdout)
	out.Field("power", "%s", p.Name)
	out.Field("stands", "%s", standing(p))
	out.Field("reaches", "%s", reaches(p))
	rows := [][]string{}
	for _, e := range p.Counted {
		rows = append(rows, []string{e.At.Local().Format("2006-01-02 15:04"), e.DNA, fmt.Sprintf("%s, record %d", e.Anchor.Chain, e.Anchor.Seq), ""})
	}
	for _, l := range p.Left {
		rows = append(rows, []string{l.At.Local().Format("2006-01-02 15:04"), l.DNA, fmt.Sprintf("%s, record %d", l.Anchor.Chain, l.Anchor.Seq), "left out: " + l.Why})
	}
	out.Table([]string{"verified", "run", "audit", ""}, rows)
	return nil
}

func (cmd powerCommand) unlockCommand() *cobra.Command {
	var lifetime string
	c := &cobra.Command{
		Use: "unlock POWER", Short: "let runs have a power that is proposed, for a time", Args: command.OneArgument("a power"),
		Long: `Lets runs reach the hosts of a power, and use its credentials, from now on, until the time is over, a run that uses it
fails, or you lock it. A run that has listened to an outsider does not have it, and neither
has a session of another kind. Only a power that is proposed can be unlocked.`,
		Example: "  nacre power unlock package-installation --for 30d",
		RunE: func(c *cobra.Command, args []string) error {
			long, err := assembly.ParseAge(lifetime)
			if err != nil {
				return command.UsageOf(fmt.Errorf("--for: %w", err))
			}
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return cmd.unlock(c, rt, args[0], long)
		},
	}
	c.Flags().StringVar(&lifetime, "for", "30d", "how long, at most 90d")
	return c
}

func (cmd powerCommand) unlock(c *cobra.Command, rt *assembly.Runtime, name string, long time.Duration) error {
	approval, err := assembly.UnlockPower(c.Context(), rt, name, command.Operator(), long)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(approval)
	}
	out := cmd.Printer(cmd.Stdout)
	out.Field("unlocked", "%s until %s", name, approval.Until.Local().Format("2006-01-02 15:04"))
	out.Field("take back", "nacre power lock %s", name)
	return nil
}

func (cmd powerCommand) lockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lock POWER", Short: "take a power back, and what spoke for it", Args: command.OneArgument("a power"), Example: "  nacre power lock package-installation",
		RunE: func(c *cobra.Command, args []string) error {
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return assembly.LockPower(c.Context(), rt, args[0], command.Operator())
		},
	}
}
