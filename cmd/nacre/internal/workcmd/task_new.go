package workcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// taskExample is a task file that works: role and agent's id are put in.
const taskExample = `# A task of the substrate: nacre task run %[3]s
# Every key is in docs/roles.md. Unknown keys are refused.

[task]
role = %[1]q          # who does it: nacre role list shows the roles
agent-id = %[2]q      # names the work: its session, and its row in nacre ledger

[scope]
files-whitelist = ["**"]      # what may be written, as globs: narrow it to the files of the task
# files-denylist = ["docs/**"]  # what may not, though it is on the whitelist
# max-deletes = 0               # how many files may be removed

[verification]
# commands = ["go test ./..."]  # must succeed on the result, outside, without network, beside what the role verifies

[body]
text = """
Say here what is to be done, and how one sees that it is done.
"""
`

func (cmd taskCommand) newCommand() *cobra.Command {
	var role string
	c := &cobra.Command{
		Use: "new FILE", Short: "write a commented task file to begin with", Args: command.OneArgument("a file"),
		Example: "  nacre task new fix.toml --role edit-local",
		RunE: func(_ *cobra.Command, args []string) error {
			id := agentID(args[0])
			return cmd.WriteExample(args[0], fmt.Sprintf(taskExample, role, id, args[0]), "say in "+args[0]+" what is to be done; nacre task run "+args[0])
		},
	}
	c.Flags().StringVar(&role, "role", "edit-local", "role of the task")
	return c
}

// agentID makes an agent's id of a file's name.
func agentID(file string) string {
	name := strings.TrimSuffix(file[strings.LastIndex(file, "/")+1:], ".toml")
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	if id == "" {
		return "task"
	}
	return id[:min(len(id), 32)]
}
