//go:build !linux

// Command nacre seals an agent behind one door. What it seals with is Linux's: elsewhere it
// says what to do, and does nothing else.
package main

import (
	"fmt"
	"os"
	"runtime"
)

// notReady is command.ExitNotReady, whose room has no build here.
const notReady = 3

func main() {
	fmt.Fprintf(os.Stderr, "nacre: %s lacks what agents are sealed with: namespaces, Landlock and seccomp are Linux's\n"+
		"       run nacre in a Linux virtual machine, with your project in it: docs/install.md, \"On macOS\"\n", runtime.GOOS)
	os.Exit(notReady)
}
