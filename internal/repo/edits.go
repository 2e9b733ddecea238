package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// editsRef names, in the host's own git directory, a base that is the user's HEAD with
// their uncommitted edits. Nobody but the host writes there, and it outlives a crash.
const editsRef = "refs/nacre/edits"

// WithEdits makes the base of a project that was just opened a commit of the user's files as they
// are now, on top of their HEAD. It has what is tracked, and what is neither tracked nor ignored
// (U-20). No hook, filter or file system monitor of theirs runs, and none of their refs, index or
// files changes. Where nothing differs the base stays.
func WithEdits(ctx context.Context, p *Project) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, e, err := readEdits(ctx, p)
	if err != nil {
		return fmt.Errorf("uncommitted edits: %w", err)
	}
	defer func() { _ = w.root.Close() }() // only read
	if len(e.deleted)+len(e.written) == 0 {
		return nil
	}
	if err := e.check(); err != nil {
		return fmt.Errorf("uncommitted edits: %w", err)
	}
	tree, err := p.importEdits(ctx, w, e)
	if err != nil {
		return fmt.Errorf("uncommitted edits: %w", err)
	}
	made, err := p.commit(ctx, MergeRequest{Message: "uncommitted edits\n", Author: Author{hostName, hostEmail}}, tree, p.Base)
	if err != nil {
		return err
	}
	if _, err := p.own(ctx, "update-ref", editsRef, string(made)); err != nil {
		return err
	}
	p.Base = made
	return nil
}

// readEdits reads the files that differ from HEAD. Those that a filter of the user's makes
// differ are told from edits by the index, as git status does.
func readEdits(ctx context.Context, p *Project) (*walker, edits, error) {
	index, err := p.copyIndex(ctx)
	if err != nil {
		return nil, edits{}, err
	}
	tracked, untracked, err := p.compare(ctx, index, p.Base, "all")
	index.remove()
	if err != nil {
		return nil, edits{}, err
	}
	base, err := p.listTree(ctx, string(p.Base))
	if err != nil {
		return nil, edits{}, err
	}
	root, err := os.OpenRoot(p.Top)
	if err != nil {
		return nil, edits{}, err
	}
	w := &walker{objects: p.objects, root: root, files: make(map[string]found)}
	e := edits{files: w.files}
	for _, name := range slices.Concat(tracked, untracked) {
		if err := w.readEdit(&e, name, base[name]); err != nil {
			return nil, edits{}, errors.Join(err, root.Close())
		}
	}
	slices.Sort(e.deleted)
	slices.Sort(e.written)
	return w, e, w.leave()
}

// readEdit reads one of them. Repositories inside, pipes, sockets and devices stay out, as
// they do of a snapshot.
func (w *walker) readEdit(e *edits, name string, was entry) error {
	if strings.HasSuffix(name, "/") || was.mode == modeGitlink {
		return nil
	}
	whole, err := w.enter(path.Dir(name), nil) // else it is gone, and a file or a link has its place
	var info fs.FileInfo
	if err == nil && whole {
		info, err = w.near.Lstat(path.Base(name))
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case info == nil, !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		if was.mode != "" {
			e.deleted = append(e.deleted, name)
		}
		return nil
	}
	f, err := w.read(name, info, io.Discard)
	if err == nil && f.entry != was {
		w.files[name] = f
		e.written = append(e.written, name)
	}
	return err
}

// edited reports whether the base holds edits of the user's that are in no commit of theirs.
func edited(ctx context.Context, p *Project) bool {
	id, err := p.ownLine(ctx, "rev-parse", "-q", "--verify", editsRef)
	return err == nil && id == string(p.Base)
}
