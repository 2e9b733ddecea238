//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/guard"
)

// maxOutput is how much of a tool's output is kept, in bytes: the first and
// the last half of it.
const maxOutput = 256 << 10

// Tools are what a brain of ours can do inside the sandbox.
type Tools struct {
	// Dir is where relative paths start; empty means the process's directory.
	Dir    string
	Getenv func(string) string
	// Roots, when set, are the folders that the file tools keep to, links
	// followed. They keep a model from straying; what holds is the sandbox.
	Roots []string
	// Hidden are variables of the environment that commands do not get: a test
	// of the project's that finds a model's key would spend the session's budget.
	Hidden []string
	// Gates, when set, are the task's: they are asked before each call.
	Gates *guard.Set
	// Refusals is the socket on which the host hears of what they refuse.
	Refusals string
}

// Result is what came of a tool.
type Result struct {
	Text    string
	IsError bool
	// ExitCode is set by shell alone, for a command that ran to its end.
	ExitCode *int
	// Denied says that the tool was not used, because it must not be.
	Denied bool
}

// Do uses a tool. Input that the tool does not take, and every failure, is a
// result with IsError: the brain goes on.
func (t Tools) Do(ctx context.Context, name string, input json.RawMessage) Result {
	table := map[string]func(context.Context, json.RawMessage) (Result, error){
		"shell": t.shell, "read": t.read, "write": t.write, "edit": t.edit, "list": t.list, "fetch": t.fetch,
		"glob": t.glob, "grep": t.grep,
	}
	tool, known := table[name]
	if !known {
		names := slices.Sorted(maps.Keys(table))
		return Result{IsError: true, Text: fmt.Sprintf("unknown tool %.80q: one of %s", name, strings.Join(names, ", "))}
	}
	gates := t.gated(ctx, name, input)
	if gates.Refusal != "" {
		return Result{IsError: true, Text: gates.Refusal, Denied: true}
	}
	r, err := tool(ctx, input)
	if gates.Warnings != "" && err == nil {
		r.Text = guard.Prefix + "a warning: " + gates.Warnings + "\n" + r.Text
	}
	if err != nil {
		return Result{IsError: true, Text: name + ": " + err.Error(), Denied: errors.Is(err, errOutside)}
	}
	return r
}

// errOutside is a path that leads out of the roots.
var errOutside = errors.New("outside of the project")

// path makes a name absolute and refuses what is none, or leads out of the roots.
func (t Tools) path(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("path %.80q: use the name of a file", name)
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(t.Getenv("HOME"), rest)
	}
	path := filepath.Clean(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, name)
	}
	if len(t.Roots) > 0 && !t.within(path) {
		return "", fmt.Errorf("%s is %w: use the files of the project", path, errOutside)
	}
	return path, nil
}

// within reports whether path is below a root once its links are followed.
// What does not exist yet is where its nearest folder is.
func (t Tools) within(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = filepath.Join(real, rest)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || isLink(path) || path == "/" {
			return false
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
	return slices.ContainsFunc(t.Roots, func(root string) bool {
		real, err := filepath.EvalSymlinks(root)
		return err == nil && (path == real || strings.HasPrefix(path, strings.TrimSuffix(real, "/")+"/"))
	})
}

// clipped keeps the first and the last part of what is written to it.
type clipped struct {
	head []byte
	tail []byte
	next int // where the tail's oldest byte is, once it is full
	lost int64
}

func (c *clipped) Write(p []byte) (int, error) {
	n := len(p)
	if room := maxOutput/2 - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	if over := len(p) - maxOutput/2; over > 0 {
		c.lost += int64(over)
		p = p[over:]
	}
	for len(p) > 0 {
		var took int
		if room := maxOutput/2 - len(c.tail); room > 0 {
			took = min(room, len(p))
			c.tail = append(c.tail, p[:took]...)
		} else {
			took = copy(c.tail[c.next:], p)
			c.next = (c.next + took) % len(c.tail)
			c.lost += int64(took)
		}
		p = p[took:]
	}
	return n, nil
}

// String is what was kept, as valid UTF-8, with a line where bytes are missing.
func (c *clipped) String() string {
	var b strings.Builder
	b.Write(c.head)
	if c.lost > 0 {
		fmt.Fprintf(&b, "\n[… %d bytes left out …]\n", c.lost)
	}
	b.Write(c.tail[c.next:])
	b.Write(c.tail[:c.next])
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}
