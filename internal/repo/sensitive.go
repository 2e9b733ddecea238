package repo

import (
	"context"
	"fmt"
	"io"
	"maps"

	"github.com/nacre-dev/nacre/internal/planted"
)

// markSensitive fills in why each change is sensitive.
func (p *Project) markSensitive(ctx context.Context, tree string, files []Change) error {
	if len(files) == 0 {
		return nil
	}
	for i := range files {
		f := &files[i]
		class := planted.Classify(f.Path)
		if class.Kind.Level() != planted.Outputs || f.Kind != Deleted {
			f.mark(class)
		}
		if f.NewMode == modeLink {
			f.mark(planted.ClassifyLink(f.Path))
		}
		if f.OldMode == modeGitlink || f.NewMode == modeGitlink {
			f.mark(planted.Class{Kind: planted.Module})
		}
	}
	entries, err := p.listTree(ctx, tree)
	if err != nil {
		return err
	}
	collides, bare := planted.Collisions(maps.Keys(entries)), planted.Bare(maps.Keys(entries))
	for i, f := range files {
		if f.Sensitive == "" && f.Kind == Added && collides(f.Path) {
			files[i].mark(planted.Class{Kind: planted.Case})
		}
		if files[i].Sensitive == "" && f.Kind != Deleted && bare(f.Path) {
			files[i].mark(planted.Class{Kind: planted.Nested})
		}
	}
	err = p.markLinks(ctx, files, entries)
	for _, i := range planted.InPlace(len(files), func(i int) (string, bool) { return files[i].Path, files[i].Held }) {
		if files[i].Kind != Deleted {
			files[i].mark(planted.Class{Kind: planted.Place})
		}
	}
	return err
}

// mark says why a person should look at the change, and whether it waits for that.
func (c *Change) mark(class planted.Class) {
	c.Sensitive, c.Held = class.Reason(), class.Kind != planted.None && class.Kind.Level() <= planted.Misleading
}

// markLinks finds links that lead out of the project, and what a link shows under a sensitive name.
// It finds what git's configuration names or a trusted file calls, and of the rest what may be run.
func (p *Project) markLinks(ctx context.Context, files []Change, entries map[string]entry) error {
	var links []string
	for name, e := range entries {
		if e.mode == modeLink {
			links = append(links, name)
		}
	}
	targets := make(map[string]string, len(links))
	read := func(name string) (string, bool) {
		target, ok := targets[name]
		return target, ok
	}
	called := calls{read, map[string]planted.Class{}}
	// By one run of git: the links come first, for what a file calls is looked up among them.
	err := p.withBlobs(ctx, append(links, p.callers(entries)...), entries, func(name string, e entry, size int64, content io.Reader) error {
		if e.mode != modeLink {
			return called.readFrom(name, content)
		}
		if size > MaxPath {
			return fmt.Errorf("link target of %d bytes: %w", size, ErrTooBig)
		}
		target, err := io.ReadAll(content)
		targets[name] = string(target)
		return err
	})
	if err != nil {
		return err
	}
	shown := planted.ShownAs(maps.Keys(targets), read)
	maps.Copy(shown, p.hookCalls(read))
	maps.Copy(shown, called.paths)
	for _, name := range p.place.obeyed() {
		shown[name] = planted.Class{Kind: planted.Named, Program: "git's configuration or a link of a hook"}
	}
	for i, f := range files {
		if target, ok := targets[f.Path]; ok && planted.LeavesProject(f.Path, target) {
			files[i].mark(planted.Class{Kind: planted.Link})
		}
		for _, name := range append(parents(f.Path), f.Path) {
			if shown[name].Kind != planted.None && files[i].Sensitive == "" {
				files[i].mark(shown[name])
			}
		}
		if files[i].Sensitive == "" && f.NewMode == modeExec {
			files[i].mark(planted.Class{Kind: planted.Program})
		}
	}
	return nil
}
