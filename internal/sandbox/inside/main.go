// Package inside is what runs inside a native sandbox before the agent does (M-12). PID 1 builds
// the root file system from nothing, forwards loopback ports and reaps. The last stage, before the
// agent's execve, gives up every power. It promises that the agent starts only when each step held.
// It does not decide what a sandbox may reach: the [Plan] says it.
package inside

import (
	"fmt"
	"os"
)

// Name is argv[0] of a process that must run [Main].
const Name = "sandbox-init"

// The first argument says which part of the work the process does.
const (
	ModeInit  = "init"  // PID 1
	ModeCheck = "check" // try what a sandbox needs, and say what failed

	ModeContain = "contain" // PID 1 of a container engine's container
)

// Main runs the mode in args[1] and returns the exit code.
func Main(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "sandbox-init: started by nacre only")
		return 2
	}
	var err error
	switch args[1] {
	case ModeInit:
		err = runInit()
	case ModeContain:
		err = runContain()
	case ModeCheck:
		err = runCheck()
	default:
		err = fmt.Errorf("unknown mode %q", args[1])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox-init: %s: %v\n", args[1], err)
		return 1
	}
	return 0
}
