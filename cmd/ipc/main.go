// Command ipc is how an agent calls a tool from inside its sandbox.
package main

import (
	"os"

	"github.com/nacre-dev/nacre/internal/ipc"
)

func main() { os.Exit(ipc.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
