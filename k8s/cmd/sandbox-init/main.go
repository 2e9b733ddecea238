// Command sandbox-init is PID 1 of a pod, and its init container. The template of the
// pool starts it; its name is what it is in every sandbox.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/nacre-dev/nacre/k8s/internal/pod"
)

func main() { os.Exit(run(os.Args)) }

func run(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "sandbox-init: say key (the init container) or run (PID 1)")
		return 2
	}
	var err error
	switch args[1] {
	case pod.ModeKey:
		err = pod.MakeKey()
	case pod.ModeRun:
		err = pod.Run(context.Background())
	default:
		err = fmt.Errorf("unknown mode %q", args[1])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox-init: %s: %v\n", args[1], err)
		return 1
	}
	return 0
}
