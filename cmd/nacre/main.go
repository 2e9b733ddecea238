// Command nacre seals an agent behind one door: it runs commands and agents in
// a sandbox, decides and records what they ask for, verifies what they made,
// and proves what happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/brain/agent"
	"github.com/nacre-dev/nacre/internal/display"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// The exit codes (M-01). They are a contract with scripts.
const (
	exitOK          = 0
	exitFailed      = 1   // the work failed: refused, not verified, tampering found
	exitUsage       = 2   // usage or config error
	exitNotReady    = 3   // something that is needed is missing
	exitDoctor      = 4   // doctor found a failing check
	exitTimeout     = 124 // a limit ended it: time, output or disk
	exitExecFailed  = 125 // exec: nacre failed before the command started
	exitInterrupted = 130 // Ctrl-C, or nacre sessions stop
)

const (
	// startGCPercent while a command starts; the garbage collector would take a core
	// from it for nothing: it allocates little, and keeps most of that.
	startGCPercent = 800
	// startGCTime is until there may be garbage worth collecting.
	startGCTime = 200 * time.Millisecond
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is what the program's name says: nacre is also ipc, ipc-mcp, brain and
// sandbox-init where those binaries do not lie beside it.
func run(args []string, stdin *os.File, stdout, stderr *os.File) int {
	switch filepath.Base(args[0]) {
	case "sandbox-init":
		return inside.Main(args)
	case "ipc":
		return ipc.Main(args[1:], stdin, stdout, stderr)
	case "ipc-mcp":
		return mcpserver.Main(version, stdin, stdout, stderr)
	case "brain":
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // as cmd/brain does, and for its reasons
		return agent.Main(agent.World{Args: args[1:], Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: os.Getenv, Door: ipc.Call})
	}
	percent := debug.SetGCPercent(startGCPercent)
	collect := time.AfterFunc(startGCTime, func() { debug.SetGCPercent(percent) })
	defer collect.Stop()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	app := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv, interrupted: func() bool { return ctx.Err() != nil }}
	root := app.command(args[1:])
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	return app.report(stderr, err)
}

// exitError ends the program with a code; its message, if any, is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// report says what went wrong and gives the code that tells it to scripts.
func (a *app) report(stderr io.Writer, err error) int {
	code, err := a.advised(a.codeOf(err), err)
	var coded *exitError
	if errors.As(err, &coded) && coded.err == nil {
		return code
	}
	if code == exitInterrupted && coded == nil {
		err = errors.New("interrupted before anything was begun")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = display.Escape(strings.TrimSpace(line))
	}
	_, _ = fmt.Fprintln(stderr, "nacre: "+strings.Join(lines, "\n       ")) // nothing is left to tell it to
	return code
}

// advised gives the next step where those who met an error could not know it: what is
// unknown to a store that agents ask as well, and a state folder that is unusable.
func (a *app) advised(code int, err error) (int, error) {
	switch {
	case errors.Is(err, memory.ErrNotFound):
		return code, fmt.Errorf("%w; nacre memory list --all shows those there are", err)
	case errors.Is(err, ledger.ErrNotFound):
		return code, fmt.Errorf("%w; nacre ledger list shows those there are", err)
	default:
		return a.advisedOnState(code, err)
	}
}

// advisedOnState says what to do where the state folder cannot be written or read, whoever
// met it and however far up it came. A code that a command chose stays.
func (a *app) advisedOnState(code int, err error) (int, error) {
	var at *fs.PathError
	var coded *exitError
	var notReady *assembly.NotReady
	if !errors.As(err, &at) || errors.As(err, &notReady) || !isInaccessible(at) {
		return code, err
	}
	paths, pathErr := registry.ResolvePaths(a.getenv)
	if pathErr != nil || !strings.HasPrefix(at.Path, paths.State+string(filepath.Separator)) {
		return code, err
	}
	if !errors.As(err, &coded) {
		code = exitNotReady
	}
	return code, fmt.Errorf("%w\nmake %s yours and writable, with room on its disk", err, paths.State)
}

func isInaccessible(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// usageError is a command line or a config that cannot be acted on.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, values ...any) error { return &usageError{fmt.Errorf(format, values...)} }

// codeOf is the code that an error ends the program with. What was cancelled with
// nobody asking for it broke off, and was not interrupted.
func (a *app) codeOf(err error) int {
	var coded *exitError
	var notReady *assembly.NotReady
	var badUsage *usageError
	var badConfig *assembly.ConfigError
	var unusable *sqlitefile.UnusableError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &badUsage), errors.As(err, &badConfig):
		return exitUsage
	case errors.As(err, &notReady):
		return exitNotReady
	case errors.Is(err, assembly.ErrStopped), errors.Is(err, context.Canceled) && a.interrupted():
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &unusable):
		return exitNotReady
	default:
		return exitFailed
	}
}
