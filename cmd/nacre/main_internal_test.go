package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// S-12: that a run was interrupted is said where somebody asked for it, by a
// signal or by nacre sessions stop, and never of what broke off by itself.
func TestOnlyWhatWasInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	broke := fmt.Errorf("start plugin: %w", context.Canceled)
	for name, c := range map[string]struct {
		err         error
		interrupted bool
		code        int
		says        string
	}{
		"a signal":                              {context.Canceled, true, exitInterrupted, "interrupted before anything was begun"},
		"stopped from outside":                  {assembly.ErrStopped, false, exitInterrupted, "interrupted before anything was begun"},
		"a part that was cancelled":             {broke, false, exitFailed, "start plugin: context canceled"},
		"beside what went wrong":                {errors.Join(errors.New("disk full"), context.Canceled), false, exitFailed, "disk full"},
		"a usage error, while a signal arrives": {usage("no task"), true, exitUsage, "no task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			a := &app{interrupted: func() bool { return c.interrupted }}
			if code := a.report(&told, c.err); code != c.code || !strings.Contains(told.String(), c.says) {
				t.Errorf("have %d %q, want %d %q", code, told.String(), c.code, c.says)
			}
		})
	}
}

// A command is made when it is asked for by its name, and all of them for
// whatever else there is.
func TestWhatIsAskedForIsMade(t *testing.T) {
	t.Parallel()
	a := &app{}
	all := len(a.commands())
	for _, c := range a.commands() {
		made := a.command([]string{c.name, "--help"}).Commands()
		if len(made) != 1 || made[0].Name() != c.name || len(made[0].Aliases) > 0 {
			t.Errorf("%s makes %v", c.name, made)
		}
	}
	for name, args := range map[string][]string{
		"nothing": nil, "help": {"help", "exec"}, "a flag first": {"--json", "exec"}, "a completion": {"__complete", "ex"},
		"a mistake": {"exce"}, "an empty word": {""},
	} {
		if have := len(a.command(args).Commands()); have != all {
			t.Errorf("%s: have %d commands, want %d", name, have, all)
		}
	}
}
