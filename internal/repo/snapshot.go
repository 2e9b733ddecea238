package repo

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

const snapshotRef = "refs/nacre/snapshot"

// Snapshot builds the tree that is the base commit with the agent's files: new, changed and deleted ones, their
// modes, and symbolic links as links. It reads the work tree only, of a layer what is in the layer only, and
// never the clone's .git. It must be called when nothing of the agent runs any more.
//
// Left out, and listed in Changes, are untracked files that the base commit's ignore rules ignore. What the agent
// writes into a .gitignore hides nothing. Left out, too, are nested git directories and names that some system
// takes for one, files in submodules, sockets, pipes and devices. Too much of anything is an error.
func (c *Clone) Snapshot(ctx context.Context) (Tree, Changes, error) {
	p := c.project
	p.mu.Lock()
	defer p.mu.Unlock()
	base, err := p.listTree(ctx, string(p.Base))
	if err != nil {
		return "", Changes{}, err
	}
	dir, layer := c.Dir, overlay.Shape(nil)
	if c.over != "" {
		dir, layer = filepath.Join(c.Dir, nacre.LayerUpper), overlay.Shape{}
	}
	under := base
	if c.over != "" && c.over != p.Base {
		if under, err = p.listTree(ctx, string(c.over)); err != nil {
			return "", Changes{}, fmt.Errorf("snapshot: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", Changes{}, fmt.Errorf("snapshot: %w", err)
	}
	tree, changes, err := p.snapshot(ctx, root, base, covered{layer, under})
	if err = errors.Join(err, root.Close()); err != nil {
		return "", Changes{}, fmt.Errorf("snapshot: %w", err)
	}
	return tree, changes, nil
}

func (p *Project) snapshot(ctx context.Context, root *os.Root, base map[string]entry, over covered) (Tree, Changes, error) {
	ig, err := p.openIgnorer(ctx, base)
	if err != nil {
		return "", Changes{}, err
	}
	w := &walker{objects: p.objects, root: root, admit: additions(base), files: make(map[string]found), layer: over.layer}
	w.skipFile, w.skipDir = landable(base, ig)
	if err := errors.Join(w.walk(ctx, ".", 0), ig.Close()); err != nil {
		return "", Changes{}, err
	}
	over.complete(w.files)
	e := editsOf(base, w.files)
	if err := e.check(); err != nil {
		return "", Changes{}, err
	}
	tree, err := p.importEdits(ctx, w, e)
	if err != nil {
		return "", Changes{}, err
	}
	changes, err := p.changes(ctx, string(p.Base), string(tree))
	if err != nil {
		return "", Changes{}, err
	}
	if len(changes.Files) != len(e.deleted)+len(e.written) {
		return "", Changes{}, fmt.Errorf("%d files changed, but the tree has %d changes", len(e.deleted)+len(e.written), len(changes.Files))
	}
	changes.skip(w.skipped)
	return tree, changes, nil
}

// landable says what of a work tree can land: what the base tracks, and what
// its rules do not ignore.
func landable(base map[string]entry, ig *git.Ignorer) (file, dir func(string) (string, error)) {
	tracked := make(map[string]bool)
	for name := range base {
		for _, parent := range parents(name) {
			tracked[parent] = true
		}
	}
	file = func(name string) (string, error) {
		if e, ok := base[name]; ok {
			return gitlinkReason(e), nil
		}
		return ignoreReason(ig, name)
	}
	dir = func(name string) (string, error) {
		if e, ok := base[name]; ok && e.mode == modeGitlink {
			return gitlinkReason(e), nil
		}
		if tracked[name] {
			return "", nil
		}
		return ignoreReason(ig, name+"/")
	}
	return file, dir
}

// additions bounds what is new before any of it is read; what the base tracks
// counts once it is known to have changed.
func additions(base map[string]entry) func(string, int64) error {
	var total int64
	return func(name string, size int64) error {
		if _, tracked := base[name]; tracked {
			return nil
		}
		if size > MaxFile {
			return fmt.Errorf("%q has %d bytes: %w", name, size, ErrTooBig)
		}
		if total += size; total > MaxChanged {
			return fmt.Errorf("new files have more than %d bytes in all: %w", int64(MaxChanged), ErrTooBig)
		}
		return nil
	}
}

func gitlinkReason(e entry) string {
	if e.mode == modeGitlink {
		return "a submodule, which stays as it was"
	}
	return ""
}

func ignoreReason(ig *git.Ignorer, name string) (string, error) {
	ignored, err := ig.Ignored(name)
	if ignored {
		return "ignored by the base commit's rules", err
	}
	return "", err
}

// edits are what the agent's files do to the base tree, sorted.
type edits struct {
	deleted, written []string
	files            map[string]found
}

func editsOf(base map[string]entry, files map[string]found) edits {
	e := edits{files: files}
	for name, was := range base {
		if _, ok := files[name]; !ok && was.mode != modeGitlink {
			e.deleted = append(e.deleted, name)
		}
	}
	for name, f := range files {
		if base[name] != f.entry {
			e.written = append(e.written, name)
		}
	}
	slices.Sort(e.deleted)
	slices.Sort(e.written)
	return e
}

func (e edits) check() error {
	if n := len(e.deleted) + len(e.written); n > MaxChanges {
		return fmt.Errorf("%d changed files: %w", n, ErrTooBig)
	}
	var total int64
	for _, name := range e.written {
		size := e.files[name].size
		if total += size; size > MaxFile {
			return fmt.Errorf("%q has %d bytes: %w", name, size, ErrTooBig)
		}
	}
	if total > MaxChanged {
		return fmt.Errorf("changed files have %d bytes in all: %w", total, ErrTooBig)
	}
	return nil
}

// importEdits makes the tree with git's bulk importer, which knows no filters
// and reads nothing but this stream.
func (p *Project) importEdits(ctx context.Context, w *walker, e edits) (Tree, error) {
	cmd, complaint, cancel := p.git.Prepare(ctx, git.Command{
		GitDir: p.vault.dir, Args: []string{"fast-import", "--quiet", "--force", "--done"},
	})
	defer cancel()
	said := git.NewCapped(maxListedTree)
	cmd.Stdout = said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	stream := bufio.NewWriterSize(in, 1<<16)
	failed := p.writeStream(stream, w, e)
	if failed == nil {
		failed = stream.Flush()
	} else {
		_ = cmd.Cancel() // half a stream must not become a tree
	}
	_ = in.Close() // the error that counts is the process's
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && complaint.Len() > 0 {
		return "", fmt.Errorf("import: %s", strings.TrimSpace(complaint.String()))
	}
	if err := errors.Join(failed, err); err != nil {
		return "", err
	}
	id, _ := strings.CutPrefix(said.String(), "040000 tree ")
	return ParseTree(strings.TrimSuffix(id, "\t\n"))
}

// maxListedTree is the longest line in which the importer names a tree, in bytes.
const maxListedTree = 100

func (p *Project) writeStream(to *bufio.Writer, w *walker, e edits) error {
	_, err := fmt.Fprintf(to, "feature done\nfeature ls\ncommit %s\nmark :1\ncommitter nacre <nacre@localhost> 0 +0000\ndata 0\nfrom %s\n", snapshotRef, p.Base)
	if err != nil {
		return err
	}
	for _, name := range e.deleted {
		if _, err := fmt.Fprintf(to, "D %s\n", git.QuotePath(name)); err != nil {
			return err
		}
	}
	for _, name := range e.written { // sorted: those of a directory follow each other
		if dir := path.Dir(name); w.near == nil || w.nearDir != dir {
			if whole, err := w.enter(dir, nil); err != nil || !whole {
				return cmp.Or(err, fmt.Errorf("%q changed while it was read: %w", dir, ErrUnsafe))
			}
		}
		if err := p.writeFileTo(to, w, name, e.files[name]); err != nil {
			return errors.Join(err, w.leave())
		}
	}
	_, err = to.WriteString("\nls :1 \ndone\n") // it says which tree that is
	return errors.Join(err, w.leave())
}

// writeFileTo reads a file a second time: its content must be what the first
// reading saw.
func (p *Project) writeFileTo(to *bufio.Writer, w *walker, name string, was found) error {
	if _, err := fmt.Fprintf(to, "M %s inline %s\ndata %d\n", was.mode, git.QuotePath(name), was.size); err != nil {
		return err
	}
	in, base := w.from(name)
	info, err := in.Lstat(base)
	if err != nil {
		return err
	}
	now, err := w.read(name, info, to)
	if err != nil {
		return err
	}
	if now != was {
		return fmt.Errorf("%q changed while it was read: %w", path.Clean(name), ErrUnsafe)
	}
	return to.WriteByte('\n')
}
