package policycmd

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/policy"
)

// policyExample stands in front of the shipped rules.
const policyExample = `# nacre reads this file when it starts. docs/policy.md has every key; unknown ones are refused.
# nacre policy check FILE says what may not be meant, nacre policy explain what becomes of a call.
#
# A rule of one's own goes above those that it is to come before:
#
# [[rules]]
# name = "mail goes to us"
# action = "allow"                          # allow, ask or deny
# [rules.match]
# capability = ["mail.*"]
# arguments = { to = "*@example.com" }

`

func (cmd policyCommand) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "write the shipped policy, commented, to change it",
		Long: `Writes the policy that decides without a file, with comments, so that it can be changed.
Without FILE it is written where nacre reads it: policy.toml beside config.toml.`,
		Example: "  nacre policy init\n  nacre policy init policy.toml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("one file, please; see %s --help", c.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			paths, err := registry.ResolvePaths(cmd.Getenv)
			if err != nil {
				return command.ExitWith(command.ExitNotReady, err)
			}
			path := filepath.Join(paths.Config, "policy.toml")
			if len(args) == 1 {
				path = args[0]
			}
			return cmd.WriteExample(path, policyExample+policy.ShippedText(), "nacre policy check "+path)
		},
	}
}
