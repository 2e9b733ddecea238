package repo

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/planted"
)

// maxCaller is how much is read of a file that may call others, maxHooks of how many hooks.
const maxCaller, maxHooks = 256 << 10, 64

// calls are the paths that files call which somebody trusts already (F-13).
type calls struct {
	// read gives a link's target.
	read  func(name string) (target string, isLink bool)
	paths map[string]planted.Class
}

func (c calls) note(caller, text string) {
	for _, at := range planted.CalledUnasked(caller, text) {
		for _, at := range planted.Through(at, c.read) {
			c.paths[at] = planted.Class{Kind: planted.Named, Program: caller}
		}
	}
}

// readFrom notes what a file of the tree calls, in as much as is read of it.
func (c calls) readFrom(caller string, content io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(content, maxCaller))
	c.note(caller, string(text))
	_, drained := io.Copy(io.Discard, content)
	return errors.Join(err, drained)
}

// hookCalls are what the hooks of the project call, which no agent has.
func (p *Project) hookCalls(read func(name string) (target string, isLink bool)) map[string]planted.Class {
	called := calls{read, map[string]planted.Class{}}
	hooks, _ := os.ReadDir(filepath.Join(p.place.commonDir, "hooks")) // where there are none, nothing is called
	for _, hook := range hooks[:min(len(hooks), maxHooks)] {
		if text, err := disk.Read(filepath.Join(p.place.commonDir, "hooks", hook.Name()), maxCaller); err == nil {
			called.note(".git/hooks/"+hook.Name(), string(text))
		}
	}
	return called.paths
}

// callers are the files of a tree that may call others.
func (p *Project) callers(entries map[string]entry) (callers []string) {
	obeyed := p.place.obeyed()
	for name, e := range entries {
		if e.mode != modeLink && (planted.Calls(name) || slices.Contains(obeyed, name) || slices.Contains(obeyed, path.Dir(name))) {
			callers = append(callers, name)
		}
	}
	slices.Sort(callers)
	return callers
}
