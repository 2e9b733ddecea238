// Package program is the other programs that nacre is by the name it is started with, where their
// own binaries do not lie beside it. They are ipc, ipc-mcp, brain, sandbox-init and nacre-probe.
package program

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/agent"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// Run runs the program that args[0] names and returns its exit code. It returns
// false for any other name, and has done nothing then.
func Run(args []string, stdin *os.File, stdout, stderr *os.File, version string) (code int, known bool) {
	switch filepath.Base(args[0]) {
	case "sandbox-init":
		return inside.Main(args), true
	case "ipc":
		return ipc.Main(args[1:], stdin, stdout, stderr), true
	case "ipc-mcp":
		return mcpserver.Main(version, stdin, stdout, stderr), true
	case "brain":
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // as cmd/brain does, and for its reasons
		return agent.Main(agent.World{Args: args[1:], Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: os.Getenv, Door: ipc.Call, Gates: brain.GatesFile, Refusals: brain.GateSocket}), true
	case probe.Name, probe.DecoyName:
		return probe.Main(args), true
	default:
		return 0, false
	}
}
