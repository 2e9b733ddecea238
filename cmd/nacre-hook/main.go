// Command nacre-hook answers a hook of Claude Code or Codex, as nacre hook does: it
// is what hooks call before every tool call where it lies beside nacre, because all
// that nacre can do takes longer to start than the answer (P-06).
package main

import (
	"os"
	"time"

	"github.com/nacre-dev/nacre/internal/hooks"
)

func main() {
	os.Exit(hooks.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, time.Now))
}
