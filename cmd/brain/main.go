// Command brain runs inside the sandbox and plays the brains of nacre's own.
// It promises nothing about the sandbox around it.
package main

import (
	"os"

	"github.com/nacre-dev/nacre/internal/brain/agent"
)

func main() {
	os.Exit(agent.Main(agent.World{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
	}))
}
