package rolecmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/hooks"
	"github.com/nacre-dev/nacre/internal/terminal"
)

func (cmd capabilityCommand) checkCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "check NAME...", Short: "hold a tool call against atoms, as a hook of Claude Code or Codex",
		Long: `Reads a PreToolUse hook's JSON on standard input and decides by the gates of the named
atoms, all in one call. Exit 0 with JSON on standard output: the call may go on, and the
agent's own permissions still apply. Exit 2 with the reason on standard error: it may not.
Whatever is missing, malformed or unknown is exit 2. $NACRE_TASK names the task file
from which scope atoms take their lists.`,
		Example: "  nacre capability check policy::no-git-ops scope::files-whitelist < hook.json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage("%s takes one or more atoms; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return cmd.checkCapabilities(project, args) },
	}
	command.ProjectFlag(c, &project)
	return c
}

func (cmd capabilityCommand) checkCapabilities(project string, names []string) error {
	results, err := cmd.decide(project, names)
	if err != nil {
		results = []guard.Finding{{Name: strings.Join(names, " "), Decision: "deny", Severity: "block", Reason: err.Error()}}
	}
	var reasons, warnings []string
	for _, r := range results {
		switch {
		case r.Denied():
			reasons = append(reasons, r.Name+": "+r.Reason)
		case r.Warns():
			warnings = append(warnings, r.Name+": "+r.Reason)
		}
	}
	for _, warning := range warnings {
		cmd.Printer(cmd.Stderr).Line("nacre: warning: %s", warning)
	}
	if cmd.JSON {
		decision := "allow"
		if len(reasons) > 0 {
			decision = "deny"
		}
		if err := cmd.PrintJSON(map[string]any{"decision": decision, "atoms": results}); err != nil {
			return command.ExitWith(guard.ExitDenied, err)
		}
	}
	if len(reasons) > 0 {
		return command.ExitWith(guard.ExitDenied, errors.New(strings.Join(reasons, "\n")))
	}
	if cmd.JSON {
		return nil
	}
	out, err := guard.Answer(strings.Join(warnings, "\n"))
	if err == nil {
		_, err = fmt.Fprintf(cmd.Stdout, "%s\n", out)
	}
	if err != nil {
		return command.ExitWith(guard.ExitDenied, err)
	}
	return nil
}

// decide asks every gate. An error refuses the call as a whole.
func (cmd capabilityCommand) decide(named string, names []string) ([]guard.Finding, error) {
	project, err := cmd.ProjectFolder(named)
	if err != nil {
		return nil, err
	}
	call, err := cmd.readHook()
	if err != nil {
		return nil, err
	}
	atoms, done, err := library(project)
	if err != nil {
		return nil, err
	}
	defer done()
	task, err := cmd.parameters()
	if err != nil {
		return nil, err
	}
	world := guard.World(project, call.Dir)
	results := make([]guard.Finding, 0, len(names))
	for _, name := range names {
		one, err := atoms.Find(name)
		if err != nil {
			return nil, err
		}
		results = append(results, cmd.ask(one, task, call, world))
	}
	return results, nil
}

func (cmd capabilityCommand) readHook() (gate.Call, error) {
	if terminal.Is(cmd.Stdin) {
		return gate.Call{}, errors.New("no hook JSON on standard input")
	}
	return guard.ReadHook(cmd.Stdin)
}

// parameters are those of the task that the environment names, or nil.
func (cmd capabilityCommand) parameters() (*atom.Parameters, error) {
	name := cmd.Getenv("NACRE_TASK")
	if name == "" {
		return nil, nil //nolint:nilnil // no task is not an error: not every atom needs one
	}
	p, err := command.ReadTask(name)
	if err != nil {
		return nil, fmt.Errorf("NACRE_TASK: %w", err)
	}
	return &p, nil
}

// ask holds a call against one atom.
func (cmd capabilityCommand) ask(one atom.Atom, task *atom.Parameters, call gate.Call, world gate.World) guard.Finding {
	g := guard.Of(one, task)
	f := g.Check(call, world)
	if f.Decision == "deny" && g.Missing == "" && hooks.Bypassed(cmd.Getenv, g.BypassEnv, world) {
		return guard.Finding{Name: f.Name, Decision: "allow", Severity: f.Severity}
	}
	return f
}
