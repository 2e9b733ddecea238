package repo

import (
	"context"
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

// called are the paths of a tree that files call which somebody trusts already: the
// tree's own, and the hooks of the project, which no agent has (F-13).
func (p *Project) called(ctx context.Context, entries map[string]entry, read func(name string) (target string, isLink bool)) (map[string]planted.Class, error) {
	called := map[string]planted.Class{}
	note := func(caller, text string) {
		for _, at := range planted.CalledUnasked(caller, text) {
			for _, at := range planted.Through(at, read) {
				called[at] = planted.Class{Kind: planted.Named, Program: caller}
			}
		}
	}
	hooks, _ := os.ReadDir(filepath.Join(p.place.commonDir, "hooks")) // where there are none, nothing is called
	for _, hook := range hooks[:min(len(hooks), maxHooks)] {
		if text, err := disk.Read(filepath.Join(p.place.commonDir, "hooks", hook.Name()), maxCaller); err == nil {
			note(".git/hooks/"+hook.Name(), string(text))
		}
	}
	obeyed, callers := p.place.obeyed(), []string{}
	for name, e := range entries {
		if e.mode != modeLink && (planted.Calls(name) || slices.Contains(obeyed, name) || slices.Contains(obeyed, path.Dir(name))) {
			callers = append(callers, name)
		}
	}
	slices.Sort(callers)
	return called, p.withBlobs(ctx, callers, entries, func(name string, _ entry, _ int64, content io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(content, maxCaller))
		note(name, string(text))
		return err
	})
}
