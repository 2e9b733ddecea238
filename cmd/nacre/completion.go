package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// shells are those that a completion script can be written for.
func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

func (n nacre) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "print a script that completes nacre's commands in a shell", ValidArgs: shells(),
		Long: `Prints the completion script for bash, zsh, fish or powershell. The shell then offers
commands, flags and, where a command takes one, the ids of what there is: questions that
wait, sessions, plugins and schedules.`,
		Example: `  source <(nacre completion bash)                                       # this shell
  nacre completion bash > ~/.local/share/bash-completion/completions/nacre
  nacre completion zsh > "${fpath[1]}/_nacre"
  nacre completion fish > ~/.config/fish/completions/nacre.fish`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells(), args[0]) {
				return command.Usage("unknown shell %.80q: use bash, zsh, fish or powershell; see %s --help", strings.Join(args, " "), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return writeCompletion(c.Root(), args[0], n.env.Stdout) },
	}
}

func writeCompletion(root *cobra.Command, shell string, to io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(to, true)
	case "zsh":
		return root.GenZshCompletion(to)
	case "fish":
		return root.GenFishCompletion(to, true)
	default:
		return root.GenPowerShellCompletionWithDesc(to)
	}
}
