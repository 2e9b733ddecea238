//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/demo"
)

func (n nacre) demoCommand() *cobra.Command {
	var control bool
	c := &cobra.Command{
		Use: "demo", Short: "see an attacked agent, and which layer stopped what", Args: command.NoArguments,
		Long: `A recorded agent works on a small git project, sealed. Only the model's choices are
recorded, everything else is real. The project holds an injected instruction, and
the agent falls for it. The table at the end is read from the audit and from
witnesses on this machine. --control plays the same recording unsealed, against
decoys in a throw-away home, where each attack succeeds.`,
		Example: "  nacre demo\n  nacre demo --control",
		RunE: func(c *cobra.Command, _ []string) error {
			executable, err := os.Executable()
			if err != nil {
				return err
			}
			open := func(ctx context.Context, o assembly.Options) (demo.Runtime, error) { return assembly.Open(ctx, o) }
			o := demo.Options{Open: open, Getenv: n.env.Getenv, Executable: executable, Now: time.Now, Version: n.env.Version, Printer: n.env.Printer(n.env.Stdout)}
			show := demo.Run
			if control {
				show = demo.Control
			}
			err = show(c.Context(), o)
			if n.env.Interrupted() && errors.Is(err, context.Canceled) {
				return command.ExitWith(command.ExitInterrupted, errors.New("the demo was interrupted, and what it made is removed"))
			}
			if errors.Is(err, demo.ErrNotShown) {
				return command.ExitWith(command.ExitFailed, err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&control, "control", false, "play the recording unsealed, against decoys")
	return c
}
