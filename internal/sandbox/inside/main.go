//go:build linux

package inside

import (
	"fmt"
	"os"
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
	case ModeApart:
		err = runApart()
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
