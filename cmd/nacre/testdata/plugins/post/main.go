// Command post is the handler of a plugin that takes files: what it is given,
// it writes to a file of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	var dir string
	keep := func(_ context.Context, r *plugin.Request) (any, error) {
		f, err := os.OpenFile(filepath.Join(dir, "done"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for _, argument := range slices.Sorted(maps.Keys(r.Files)) {
			file := r.Files[argument]
			if _, err := fmt.Fprintf(f, "%s %s=%s: %q\n", r.Tool, argument, file.Name, file.Content); err != nil {
				return nil, err
			}
		}
		return map[string]int{"kept": len(r.Files)}, nil
	}
	err := plugin.Serve(plugin.Handler{
		Initialize: func(_ context.Context, s plugin.Setup) error { dir = s.DataDir; return nil },
		Tools:      map[nacre.ToolName]plugin.ToolFunc{"post": keep, "keep": keep},
	})
	if err != nil {
		log.Fatal(err)
	}
}
