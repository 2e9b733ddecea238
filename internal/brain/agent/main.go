// Package agent promises the brains of nacre's own that run inside the
// sandbox: it reads a recording, carries out each choice for real, and prints
// the normalised events as JSON lines.
//
// It decides nothing about what is allowed: it runs as the sandboxed user, and
// what it may reach is what the sandbox lets it reach. It must not be run
// outside one on a recording from someone else.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// World is what the program is given of the world.
type World struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks up the environment; tools use it for the proxy.
	Getenv func(string) string
	// Dir is where tools work; empty means the process's own directory.
	Dir string
}

const usage = `usage: brain replay [--max-turns N] < RECORDING

Plays a recording inside a sandbox: each tool call in it runs for real.
Events are printed as JSON lines; see docs/recording.md.
`

// Main is the program. It returns the exit code: 0 when the turn was done, 1
// when it was not, 2 on wrong usage.
func Main(w World) int {
	turns, err := parse(w.Args)
	if err != nil {
		_, _ = fmt.Fprintf(w.Stderr, "brain: %v\n%s", err, usage) // nobody is left to tell
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Replay(ctx, w, turns); err != nil {
		_, _ = fmt.Fprintf(w.Stderr, "brain: %v\n", err) // nobody is left to tell
		return 1
	}
	return 0
}

func parse(args []string) (turns int, err error) {
	if len(args) == 0 || args[0] != "replay" {
		return 0, errors.New("say what to do")
	}
	switch {
	case len(args) == 1:
		return 0, nil
	case len(args) == 3 && args[1] == "--max-turns":
		turns, err = strconv.Atoi(args[2])
		if err != nil || turns < 1 {
			return 0, fmt.Errorf("--max-turns %.40q: use a number from 1", args[2])
		}
		return turns, nil
	}
	return 0, fmt.Errorf("unexpected argument %.80q", args[1])
}
