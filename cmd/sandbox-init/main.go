//go:build linux

// Command sandbox-init is PID 1 of a native sandbox. Only nacre starts it.
package main

import (
	"os"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

func main() { os.Exit(inside.Main(os.Args)) }
