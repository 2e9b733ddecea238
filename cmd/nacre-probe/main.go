//go:build linux

// Command nacre-probe is what nacre doctor --prove plays inside and outside of sandboxes:
// escapes, each in a process of its own, and the decoys that they may harm. It is small,
// because it is started a thousand times (U-41). Only nacre starts it.
package main

import (
	"os"

	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

func main() { os.Exit(probe.Main(os.Args)) }
