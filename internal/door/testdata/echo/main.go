// Command echo is the handler of a plugin whose one tool gives back its arguments.
package main

import (
	"context"
	"os"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	echo := func(_ context.Context, r *plugin.Request) (any, error) { return r.Arguments, nil }
	if plugin.Serve(plugin.Handler{Tools: map[nacre.ToolName]plugin.ToolFunc{"echo": echo}}) != nil {
		os.Exit(1)
	}
}
