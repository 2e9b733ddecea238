package sessioncmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type grantsCommand Commands

func (cmd grantsCommand) command() *cobra.Command {
	var span time.Duration
	revoke := &cobra.Command{
		Use: "revoke GROUP|GROUP/SESSION|ID", Short: "refuse every call of a group, a session or a grant from now on",
		Args: command.OneArgument("a group, a group/session or the id of a grant"),
		Example: "  nacre grants revoke main/k3f9ab            the session's calls are refused, while it goes on\n" +
			"  nacre grants revoke main --for 1h          all of the group's, for an hour\n" +
			"  nacre grants revoke 4f1d…                  one grant and all that were derived from it",
		RunE: func(c *cobra.Command, args []string) error { return cmd.revoke(c.Context(), args[0], span) },
	}
	revoke.Flags().DurationVar(&span, "for", 0, "let a group or a session in again after so long; without it, never")
	rotate := &cobra.Command{
		Use: "rotate-key", Short: "sign grants with a new key; those that are out stay good until they end", Args: command.NoArguments,
		Example: "  nacre grants rotate-key",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.rotateGrantKey(c.Context()) },
	}
	return command.Group("grants", "take back what agents were granted", revoke, rotate)
}

func (cmd grantsCommand) revoke(ctx context.Context, what string, span time.Duration) error {
	if span < 0 {
		return command.UsageOf(errors.New("--for takes a positive time, such as 1h"))
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	meant, err := rt.Revoke(what, span) //nolint:contextcheck // a change of the revocations that has begun is finished
	if err != nil {
		return err
	}
	if cmd.JSON {
		return errors.Join(cmd.PrintJSON(map[string]any{"revoked": what, "kind": meant.Kind, "note": meant.Note, "for_seconds": int(span / time.Second), "unknown": meant.Unknown}), unknown(meant))
	}
	p := cmd.Printer(cmd.Stdout)
	length := "for good"
	if span > 0 {
		length = "for " + terminal.Seconds(span)
	}
	if meant.Note != "" {
		p.Field("note", "%s", meant.Note)
	}
	p.Field("revoked", "%s %s, %s", meant.Kind, what, length)
	if meant.Kind != "grant" {
		p.Line("its calls are refused, and what its agents have open to the network ends; its agents go on, and their model answers them: nacre sessions stop ends a session")
	}
	return unknown(meant)
}

// unknown ends the command with a failure where a session or a group was named that there
// never was: it is revoked, and another one may have been meant.
func unknown(meant assembly.Revoked) error {
	if meant.Unknown {
		return command.Exit(command.ExitFailed)
	}
	return nil
}

func (cmd grantsCommand) rotateGrantKey(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	id, err := rt.RotateGrantKey() //nolint:contextcheck // a change of the revocations that has begun is finished
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{"key": id})
	}
	cmd.Printer(cmd.Stdout).Field("signing", "with key %s from now on", id)
	return nil
}
