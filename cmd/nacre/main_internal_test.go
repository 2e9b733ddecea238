package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
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

// M-01, M-16: a state folder that cannot be used is exit 3 and says what to do, whoever
// met it; what lies elsewhere is what the command says it is.
func TestAStateFolderThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": t.TempDir()}
	state := filepath.Join(home, ".local/state/nacre")
	at := func(err error, path string) error {
		return fmt.Errorf("begin: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	advice := "\n       make " + state + " yours and writable, with room on its disk\n"
	for name, c := range map[string]struct {
		err    error
		code   int
		advice bool
	}{
		"another's":                   {at(syscall.EACCES, state+"/keys/lock"), exitNotReady, true},
		"read-only":                   {at(syscall.EROFS, state+"/keys/lock"), exitNotReady, true},
		"a full disk":                 {at(syscall.ENOSPC, state+"/inspect-1/x"), exitNotReady, true},
		"a full disk, called usage":   {usage("%w", at(syscall.ENOSPC, state+"/inspect-1/x")), exitNotReady, true},
		"a code that a command chose": {&exitError{exitExecFailed, at(syscall.ENOSPC, state+"/x")}, exitExecFailed, true},
		"a missing file":              {at(syscall.ENOENT, state+"/x"), exitFailed, false},
		"a file of the project":       {at(syscall.EACCES, home+"/project/x"), exitFailed, false},
		"a folder with its beginning": {at(syscall.EACCES, state+"-2/x"), exitFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			a := &app{interrupted: func() bool { return false }, getenv: func(k string) string { return env[k] }}
			if code := a.report(&told, c.err); code != c.code || strings.HasSuffix(told.String(), advice) != c.advice {
				t.Errorf("have %d %q, want %d, advice %v", code, told.String(), c.code, c.advice)
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
