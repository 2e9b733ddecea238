package program

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/agent"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// sealed runs what runs in sandboxes alone.
func sealed(args []string, stdin *os.File, stdout, stderr *os.File) (code int, known bool) {
	switch filepath.Base(args[0]) {
	case "sandbox-init":
		return inside.Main(args), true
	case "brain":
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // as cmd/brain does, and for its reasons
		return agent.Main(agent.World{Args: args[1:], Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: os.Getenv, Door: ipc.Call, Gates: brain.GatesFile, Refusals: brain.GateSocket}), true
	case probe.Name, probe.DecoyName:
		return probe.Main(args), true
	default:
		return 0, false
	}
}
