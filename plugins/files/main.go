// Command handler is the files plugin: it lists, reads, searches and changes
// the files of the session's project, which is bound at /project.
//
// It promises that no path, link or race leads out of the project, and that a file is replaced
// whole or not at all. Nothing is written which makes a program of the host run something later
// (M-13). It does not decide who may call it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	if err := plugin.Serve(handler(plugin.ProjectPath)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// handler serves the project at dir.
func handler(dir string) plugin.Handler {
	p := &project{dir: dir}
	return plugin.Handler{Tools: map[nacre.ToolName]plugin.ToolFunc{
		"files_list":   onRoot(p, list),
		"files_read":   onRoot(p, read),
		"files_search": onRoot(p, search),
		"files_write":  onRoot(p, p.write),
		"files_edit":   onRoot(p, p.edit),
		"files_move":   onRoot(p, p.move),
		"files_delete": onRoot(p, p.remove),
	}}
}

// onRoot opens the project for one call and puts what went wrong into words
// that say nothing of the machine.
func onRoot[Args any](p *project, do func(ctx context.Context, root *os.Root, args Args) (any, error)) plugin.ToolFunc {
	return plugin.Tool(func(ctx context.Context, _ *plugin.Request, args Args) (any, error) {
		root, err := os.OpenRoot(p.dir)
		if err != nil {
			return nil, refuse("NO_PROJECT", "This session has no project whose files could be reached")
		}
		result, err := do(ctx, root, args)
		return result, errors.Join(explain(err), root.Close())
	})
}

func refuse(code, format string, values ...any) *plugin.ToolError {
	return &plugin.ToolError{Code: code, Message: fmt.Sprintf(format, values...)}
}

// explain says of the failures that a caller can act on what they are.
func explain(err error) error {
	var known *plugin.ToolError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return refuse("NOT_FOUND", "There is no such file: files_list shows what there is")
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EBUSY): // busy: a mount of its own
		return refuse("READ_ONLY", "The operator lets this plugin only read the project, or that file: project = \"write\" in [access.files] changes the first")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &plugin.ToolError{Code: "FULL", Message: "The disk is full: nothing was changed", Retriable: true}
	case errors.Is(err, fs.ErrPermission):
		return refuse("PERMISSION", "The file's mode does not allow that")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("PATH", "The path is too long")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &plugin.ToolError{Code: "TIMEOUT", Message: "It took too long: ask for less", Retriable: true}
	}
	return err
}
