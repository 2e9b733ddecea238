// The handler of notes-go: an example of a plugin in Go, with package plugin. Build it
// to the file handler beside the manifest:
//
//	CGO_ENABLED=0 go build -o handler .
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const maxNotes = 1000

// notes keeps one file a group.
type notes struct{ dir string }

type addition struct{ Text string }

type filter struct{ Contains string }

func (n *notes) add(_ context.Context, r *plugin.Request, a addition) (any, error) {
	f, all, err := n.open(r.Group)
	if err != nil {
		return nil, err
	}
	if len(all) >= maxNotes {
		return nil, errors.Join(f.Close(), &plugin.ToolError{Code: "FULL", Message: fmt.Sprintf("There are %d notes already", maxNotes)})
	}
	err = json.NewEncoder(f).Encode(a.Text)
	return map[string]any{"status": "added", "note": len(all) + 1}, errors.Join(err, f.Close())
}

func (n *notes) list(_ context.Context, r *plugin.Request, by filter) (any, error) {
	f, all, err := n.open(r.Group)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, note := range all {
		if strings.Contains(note, by.Contains) {
			found = append(found, note)
		}
	}
	return map[string]any{"notes": found}, f.Close()
}

// open locks the group's file, since other sessions run a handler too, and
// reads it. What is written goes to its end.
func (n *notes) open(group nacre.Group) (*os.File, []string, error) {
	f, err := os.OpenFile(filepath.Join(n.dir, string(group)+".jsonl"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	var all []string
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	for lines := bufio.NewScanner(f); err == nil && lines.Scan(); {
		var note string
		err = json.Unmarshal(lines.Bytes(), &note)
		all = append(all, note)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, all, nil
}

func main() {
	n := &notes{}
	err := plugin.Serve(plugin.Handler{
		Initialize: func(_ context.Context, s plugin.Setup) error { n.dir = s.DataDir; return nil },
		Tools:      map[nacre.ToolName]plugin.ToolFunc{"gonote_add": plugin.Tool(n.add), "gonote_list": plugin.Tool(n.list)},
	})
	if err != nil {
		log.Fatal(err)
	}
}
