package command_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// errStopped is an error that only the caller of this room knows.
var errStopped = errors.New("stopped")

func classify(err error) (code int, known bool) {
	return command.ExitInterrupted, errors.Is(err, errStopped)
}

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
		"a signal":                              {context.Canceled, true, command.ExitInterrupted, "interrupted before anything was begun"},
		"stopped from outside":                  {errStopped, false, command.ExitInterrupted, "interrupted before anything was begun"},
		"a part that was cancelled":             {broke, false, command.ExitFailed, "start plugin: context canceled"},
		"beside what went wrong":                {errors.Join(errors.New("disk full"), context.Canceled), false, command.ExitFailed, "disk full"},
		"a usage error, while a signal arrives": {command.Usage("no task"), true, command.ExitUsage, "no task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			e := &command.Env{Interrupted: func() bool { return c.interrupted }, Classify: classify}
			if code := e.Report(&told, c.err); code != c.code || !strings.Contains(told.String(), c.says) {
				t.Errorf("have %d %q, want %d %q", code, told.String(), c.code, c.says)
			}
		})
	}
}

// M-01, M-16: a state folder that cannot be used is exit 3 and says what to do, whoever met it.
// What lies elsewhere is what the command says it is.
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
		"another's":                   {at(syscall.EACCES, state+"/keys/lock"), command.ExitNotReady, true},
		"read-only":                   {at(syscall.EROFS, state+"/keys/lock"), command.ExitNotReady, true},
		"a full disk":                 {at(syscall.ENOSPC, state+"/inspect-1/x"), command.ExitNotReady, true},
		"a full disk, called usage":   {command.Usage("%w", at(syscall.ENOSPC, state+"/inspect-1/x")), command.ExitNotReady, true},
		"a code that a command chose": {command.ExitWith(command.ExitExecFailed, at(syscall.ENOSPC, state+"/x")), command.ExitExecFailed, true},
		"a missing file":              {at(syscall.ENOENT, state+"/x"), command.ExitFailed, false},
		"a file of the project":       {at(syscall.EACCES, home+"/project/x"), command.ExitFailed, false},
		"a folder with its beginning": {at(syscall.EACCES, state+"-2/x"), command.ExitFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			e := &command.Env{Interrupted: func() bool { return false }, Getenv: func(k string) string { return env[k] }}
			if code := e.Report(&told, c.err); code != c.code || strings.HasSuffix(told.String(), advice) != c.advice {
				t.Errorf("have %d %q, want %d, advice %v", code, told.String(), c.code, c.advice)
			}
		})
	}
}
