//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

func (n nacre) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "see an attacked agent, and which layer stopped what", Args: command.NoArguments, Example: "  nacre demo",
		RunE: func(*cobra.Command, []string) error {
			return command.ExitWith(command.ExitNotReady, errors.New("the demo seals with the native sandbox, which is Linux's"))
		},
	}
}
