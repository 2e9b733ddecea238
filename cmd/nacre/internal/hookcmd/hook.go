package hookcmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/hooks"
	"github.com/nacre-dev/nacre/internal/hostpath"
)

type hookCommand Commands

func (cmd hookCommand) command() *cobra.Command {
	var pin string
	c := &cobra.Command{
		Use: "hook", Short: "answer a hook of Claude Code or Codex by the set that was pinned", Args: command.NoArguments,
		Long: `Reads a PreToolUse hook's JSON on standard input and decides by the pinned set. Exit 0
with JSON on standard output: the call may go on, and the agent's own permissions still
apply. Exit 2 with the reason on standard error: it may not. Whatever is missing, malformed,
unknown or late is exit 2. nacre hooks install writes the line that calls it.`,
		Example: "  nacre hook --set ~/.local/state/nacre/hooks/DIGEST.json < hook.json",
		RunE:    func(*cobra.Command, []string) error { return cmd.answerHook(pin) },
	}
	c.Flags().StringVar(&pin, "set", "", "the pinned set's file; its name is the digest of its bytes")
	return c
}

func (cmd hookCommand) answerHook(pin string) error {
	if code := hooks.Answer(pin, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Getenv, time.Now); code != 0 {
		return command.Exit(guard.ExitDenied)
	}
	return nil
}

// codexProgram is the Codex that a person runs; empty where there is none.
func codexProgram(env *command.Env) string {
	if named := env.Getenv("NACRE_CODEX"); named != "" {
		return named
	}
	if found, err := hostpath.LookPath("codex"); err == nil {
		return found
	}
	return ""
}
