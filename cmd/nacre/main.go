// Command nacre seals an agent behind one door. It runs commands and agents in a sandbox, decides
// and records what they ask for, verifies what they made, and proves what happened. The table of
// its commands is in commands.go; each group of them is a room of its own below internal.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/policycmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/program"
)

const (
	// startGCPercent is the percentage of the garbage collector while a command starts. The
	// collector would take a core from it for nothing: a command allocates little, and keeps most
	// of that.
	startGCPercent = 800
	// startGCTime is until there may be garbage worth collecting: a slow machine takes a good part of it to begin.
	startGCTime = time.Second
)

// version is set by the linker, where it is told one.
var version string

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is what the program's name says: nacre is also ipc, ipc-mcp, brain, nacre-probe and
// sandbox-init where those binaries do not lie beside it.
func run(args []string, stdin *os.File, stdout, stderr *os.File) int {
	version := assembly.Version(version)
	if code, known := program.Run(args, stdin, stdout, stderr, version); known {
		return code
	}
	percent := debug.SetGCPercent(startGCPercent)
	collect := time.AfterFunc(startGCTime, func() { debug.SetGCPercent(percent) })
	defer collect.Stop()
	if err := os.Setenv("PATH", program.TrustedPath(os.Getenv, args)); err != nil {
		return command.ExitNotReady
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	env := &command.Env{
		Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: os.Getenv, Version: version,
		Interrupted: func() bool { return ctx.Err() != nil }, Classify: classify,
		Unwritten: new(atomic.Pointer[error]),
	}
	env.ToldToEnd(ctx.Done())
	root := nacre{env}.command(args[1:])
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(env.Words(stdout))
	root.SetErr(env.Words(stderr))
	err := root.ExecuteContext(ctx)
	if lost := env.Unwritten.Load(); err == nil && lost != nil {
		err = *lost
	}
	if err == nil {
		return command.ExitOK
	}
	return env.Report(env.Words(stderr), err)
}

// classify gives the exit codes of the errors that an installation's parts return.
func classify(err error) (code int, known bool) {
	var notReady *assembly.NotReady
	var badConfig *assembly.ConfigError
	switch {
	case errors.As(err, &badConfig):
		return command.ExitUsage, true
	case errors.As(err, &notReady):
		return command.ExitNotReady, true
	case errors.Is(err, assembly.ErrStopped):
		return command.ExitInterrupted, true
	default:
		return 0, false
	}
}

// open assembles an installation's parts. It starts nothing.
func (n nacre) open(ctx context.Context) (*assembly.Runtime, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return assembly.Open(ctx, assembly.Options{Getenv: n.env.Getenv, Executable: executable, Now: time.Now, Version: n.env.Version})
}

// installed opens the installation for the commands of policies.
func (n nacre) installed(ctx context.Context) (policycmd.Installed, error) {
	rt, err := n.open(ctx)
	if err != nil {
		return nil, err
	}
	return assembly.PoliciesOf(rt), nil
}
