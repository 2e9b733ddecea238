// Command ipc-mcp is how a brain that speaks MCP calls tools from inside its
// sandbox: a server on standard input and output.
package main

import (
	"os"

	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(mcpserver.Main(version, os.Stdin, os.Stdout, os.Stderr)) }
