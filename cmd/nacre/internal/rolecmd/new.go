package rolecmd

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
)

// roleExample is a role that works: its name is put in.
const roleExample = `# A role: what an agent that works in it is held to, at four layers (docs/substrate.md).
# Every key is in docs/roles.md. Unknown keys are refused.

[role]
name = %[1]q
display-name = %[1]q
description = "Says in a sentence what agents in this role do."

[capabilities]                # nacre capability list shows all of them
# extends = "edit-local"      # a role whose capabilities come first
required = [
  "policy::no-git-ops",       # the agent uses no git: nacre lands its work
  "scope::files-whitelist",   # it writes the files of its task and no others
  "safety::no-dep-bump",      # it changes no dependencies
]

[tools]
allowed = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
# bash-patterns-allowed = ['^go (build|test|vet)( |$)']   # the only commands of Bash; without it any

[escalation]
policy = "ask-via-return"     # ask-via-return, orchestrator-notify or fail-fast: what a refusal does
`

func (cmd roleCommand) newCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "new NAME", Short: "write a commented role of the project to begin with", Args: command.OneArgument("a name"),
		Example: "  nacre role new fixer",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := atom.CheckSlug(args[0]); err != nil {
				return command.UsageOf(err)
			}
			top, err := cmd.ProjectFolder(project)
			if err != nil {
				return command.UsageOf(err)
			}
			path := filepath.Join(top, ".nacre", "roles", args[0]+".toml")
			return cmd.WriteExample(path, fmt.Sprintf(roleExample, args[0]), "commit "+path+"; nacre role show "+args[0]+"; nacre task new FILE --role "+args[0])
		},
	}
	command.ProjectFlag(c, &project)
	return c
}
