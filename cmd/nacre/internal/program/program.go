// Package program is the other programs that nacre is by the name it is started with, where their
// own binaries do not lie beside it. They are ipc, ipc-mcp, brain, sandbox-init and nacre-probe.
package program

import (
	"os"
	"path/filepath"

	_ "github.com/nacre-dev/nacre/internal/hugepage" // nacre has them from its start
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
)

// Run runs the program that args[0] names and returns its exit code. It returns
// false for any other name, and has done nothing then.
func Run(args []string, stdin *os.File, stdout, stderr *os.File, version string) (code int, known bool) {
	switch filepath.Base(args[0]) {
	case "ipc":
		return ipc.Main(args[1:], stdin, stdout, stderr), true
	case "ipc-mcp":
		return mcpserver.Main(version, stdin, stdout, stderr), true
	default:
		return sealed(args, stdin, stdout, stderr)
	}
}
