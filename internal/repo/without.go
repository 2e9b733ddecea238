package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Without is a tree of the project in which paths are as the base commit has them.
func Without(ctx context.Context, p *Project, tree Tree, paths []string) (Tree, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	base, err := p.listTree(ctx, string(p.Base))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(p.vault.scratch(), "without-")
	if err == nil {
		tree, err = without(ctx, p, filepath.Join(dir, "index"), tree, base, paths)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return "", fmt.Errorf("leave files out: %w", err)
	}
	return tree, nil
}

func without(ctx context.Context, p *Project, index string, tree Tree, base map[string]entry, paths []string) (Tree, error) {
	in := func(args ...string) git.Command { return git.Command{GitDir: p.vault.dir, Index: index, Args: args} }
	if _, err := p.git.Run(ctx, in("read-tree", string(tree))); err != nil {
		return "", err
	}
	var edits bytes.Buffer
	for _, name := range paths {
		was, there := base[name]
		if !there {
			was = entry{mode: "0", id: string(bytes.Repeat([]byte("0"), len(tree)))}
		}
		_, _ = fmt.Fprintf(&edits, "%s %s\t%s\x00", was.mode, was.id, name) // a buffer takes everything
	}
	c := in("update-index", "-z", "--index-info")
	c.Stdin = &edits
	if _, err := p.git.Run(ctx, c); err != nil {
		return "", err
	}
	id, err := p.git.Line(ctx, in("write-tree"))
	if err != nil {
		return "", err
	}
	return ParseTree(id)
}
