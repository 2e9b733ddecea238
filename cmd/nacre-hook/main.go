// Command nacre-hook answers a hook of Claude Code or Codex, as nacre hook does (P-06). Hooks call
// it before every tool call where it lies beside nacre, because all that nacre can do takes longer
// to start than the answer.
package main

import (
	"os"
	"time"

	"github.com/nacre-dev/nacre/internal/hooks"
)

func main() {
	os.Exit(hooks.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, time.Now))
}
