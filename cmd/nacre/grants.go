package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/internal/display"
)

func (a *app) grantsCommand() *cobra.Command {
	var span time.Duration
	revoke := &cobra.Command{
		Use: "revoke GROUP|GROUP/SESSION|ID", Short: "refuse every call of a group, a session or a grant from now on",
		Args: oneArgument("a group, a group/session or the id of a grant"),
		Example: "  nacre grants revoke main/k3f9ab            the session's calls are refused, while it goes on\n" +
			"  nacre grants revoke main --for 1h          all of the group's, for an hour\n" +
			"  nacre grants revoke 4f1d…                  one grant and all that were derived from it",
		RunE: func(c *cobra.Command, args []string) error { return a.revoke(c.Context(), args[0], span) },
	}
	revoke.Flags().DurationVar(&span, "for", 0, "let a group or a session in again after so long; without it, never")
	rotate := &cobra.Command{
		Use: "rotate-key", Short: "sign grants with a new key; those that are out stay good until they end", Args: noArguments,
		Example: "  nacre grants rotate-key",
		RunE:    func(c *cobra.Command, _ []string) error { return a.rotateGrantKey(c.Context()) },
	}
	return group("grants", "take back what agents were granted", revoke, rotate)
}

func (a *app) revoke(ctx context.Context, what string, span time.Duration) error {
	if span < 0 {
		return &usageError{errors.New("--for takes a positive time, such as 1h")}
	}
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	meant, err := rt.Revoke(what, span)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"revoked": what, "kind": meant.Kind, "note": meant.Note, "for_seconds": int(span / time.Second)})
	}
	p := a.printer(a.stdout)
	length := "for good"
	if span > 0 {
		length = "for " + display.Seconds(span)
	}
	p.Field("revoked", "%s %s, %s", meant.Kind, what, length)
	if meant.Note != "" {
		p.Field("note", "%s", meant.Note)
	}
	return nil
}

func (a *app) rotateGrantKey(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, err := rt.RotateGrantKey()
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]string{"key": id})
	}
	a.printer(a.stdout).Field("signing", "with key %s from now on", id)
	return nil
}
