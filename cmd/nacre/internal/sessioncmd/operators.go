package sessioncmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/sentence"
)

type operatorsCommand Commands

func (cmd operatorsCommand) command() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "list the persons who may decide, with their identities and rights", Args: command.NoArguments,
		Example: "  nacre operators list",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.list(c.Context()) },
	}
	pair := &cobra.Command{
		Use: "pair NAME [CODE]", Short: "make an identity of a chat service an operator's", Args: cobra.RangeArgs(1, 2),
		Long: `Without a code, identities may be paired with the operator NAME for ten minutes: who writes /pair
to the channel then is shown a code. With that code, the identity becomes the operator's. At most three
identities wait at once, and five wrong codes end it. At any other time strangers are told nothing.`,
		Example: "  nacre operators pair ada\n  nacre operators pair ada K7MPX2QA",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return cmd.open(c.Context(), args[0])
			}
			return cmd.pair(c.Context(), args[0], args[1])
		},
	}
	unpair := &cobra.Command{
		Use: "unpair IDENTITY", Short: "take back an identity that became an operator's, or a passkey", Args: cobra.ExactArgs(1),
		Example: "  nacre operators unpair telegram:123456",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.unpair(c.Context(), args[0]) },
	}
	return command.Group("operators", "say who may decide", list, pair, unpair)
}

func (cmd operatorsCommand) list(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	all, err := assembly.Operators(rt)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(all)
	}
	p := cmd.Printer(cmd.Stdout)
	for _, o := range all {
		p.Field(o.Name, "%s", sentence.OrNothing(strings.Join(append(o.Identities, o.Paired...), ", ")))
		p.Line("         may        %s", sentence.OrNothing(rightsOf(o)))
		if len(o.Groups) > 0 {
			p.Line("         of groups  %s", strings.Join(o.Groups, ", "))
		}
		if told := toldOf(o); told != "" {
			p.Line("         told       %s", told)
		}
	}
	return nil
}

// rightsOf says in words what an operator may do.
func rightsOf(o assembly.Operator) string {
	var rights []string
	if len(o.Approve) > 0 {
		rights = append(rights, fmt.Sprintf("approve %s up to %s", strings.Join(o.Approve, ", "), o.UpTo))
	}
	for _, right := range []struct {
		has  bool
		word string
	}{{o.Ask, "ask"}, {o.Stop, "stop sessions"}, {o.Config, "change the configuration"}} {
		if right.has {
			rights = append(rights, right.word)
		}
	}
	return strings.Join(rights, "; ")
}

// toldOf says where and when an operator is told that a question waits, where that is not
// everywhere and always.
func toldOf(o assembly.Operator) string {
	var told []string
	switch {
	case len(o.Notify) > 0:
		told = append(told, "at "+strings.Join(o.Notify, ", "))
	case o.Notify != nil:
		told = append(told, "nowhere")
	}
	if o.QuietHours != "" {
		told = append(told, strings.TrimSpace("not "+o.QuietHours+" "+o.Zone))
	}
	return strings.Join(told, "; ")
}

func (cmd operatorsCommand) open(ctx context.Context, name string) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	until, err := assembly.OpenPairing(ctx, rt, name)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"operator": name, "until": until})
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("pairing", "%s, until %s", name, until.Local().Format("15:04:05"))
	p.Line("         write /pair to the channel, and then give the code that it shows here:")
	p.Line("         nacre operators pair %s CODE", name)
	return nil
}

func (cmd operatorsCommand) pair(ctx context.Context, name, code string) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	identity, err := assembly.Pair(ctx, rt, name, code)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{"operator": name, "identity": identity})
	}
	cmd.Printer(cmd.Stdout).Field("paired", "%s is %s from now on", identity, name)
	return nil
}

func (cmd operatorsCommand) unpair(ctx context.Context, identity string) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if err := assembly.Unpair(ctx, rt, identity); err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{"identity": identity})
	}
	cmd.Printer(cmd.Stdout).Field("unpaired", "%s decides nothing any more", identity)
	return nil
}
