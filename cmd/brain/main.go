//go:build linux

// Command brain runs inside the sandbox and is the brains of nacre's own: it
// plays recordings, and asks models. It promises nothing about the sandbox
// around it.
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/agent"
	"github.com/nacre-dev/nacre/internal/ipc"
)

func main() {
	// The commands that it runs are the same user's. This keeps them from its
	// token and from its output, where they could tell of things that never were.
	// Where it fails there is only less between them: the host believes neither.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	os.Exit(agent.Main(agent.World{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Door: ipc.Call, Gates: brain.GatesFile, Refusals: brain.GateSocket,
	}))
}
