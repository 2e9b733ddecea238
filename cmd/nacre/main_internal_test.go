package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// M-01: an installation's errors have the exit codes that scripts rely on, however
// far up they came.
func TestErrorsOfAnInstallationHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"a config that cannot be read": {&assembly.ConfigError{}, command.ExitUsage},
		"something missing":            {&assembly.NotReady{}, command.ExitNotReady},
		"stopped from outside":         {assembly.ErrStopped, command.ExitInterrupted},
		"anything else":                {errors.New("disk full"), command.ExitFailed},
		"a part that was cancelled":    {context.Canceled, command.ExitFailed},
	} {
		e := &command.Env{Interrupted: func() bool { return false }, Classify: classify}
		if have := e.CodeOf(fmt.Errorf("begin: %w", c.err)); have != c.code {
			t.Errorf("%s: have %d, want %d", name, have, c.code)
		}
	}
}

// A command is made when it is asked for by its name, and all of them for
// whatever else there is.
func TestWhatIsAskedForIsMade(t *testing.T) {
	t.Parallel()
	n := nacre{&command.Env{}}
	all := len(n.commands())
	for _, c := range n.commands() {
		made := n.command([]string{c.name, "--help"}).Commands()
		if len(made) != 1 || made[0].Name() != c.name || len(made[0].Aliases) > 0 {
			t.Errorf("%s makes %v", c.name, made)
		}
	}
	for name, args := range map[string][]string{
		"nothing": nil, "help": {"help", "exec"}, "a flag first": {"--json", "exec"}, "a completion": {"__complete", "ex"},
		"a mistake": {"exce"}, "an empty word": {""},
	} {
		if have := len(n.command(args).Commands()); have != all {
			t.Errorf("%s: have %d commands, want %d", name, have, all)
		}
	}
}
