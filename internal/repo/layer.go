package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// overEnd is the end of the name of what says, beside a clone that is a layer,
// which commit's base it is one over. The agent does not see it.
const overEnd = ".over"

// CloneOver is Clone as a layer over a base: the folder gets the layer, in which the
// base's commit differs from the project's own, and the clone's .git beside it. What
// an agent is shown is the base with the layer over it.
func (p Overlays) CloneOver(ctx context.Context, b *Base, dir string) (*Clone, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("clone directory %q is not an absolute path", dir)
	}
	if err := p.layer(ctx, b, Tree(p.Base), dir); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	gitDir := filepath.Join(dir, ".git")
	if err := copyGitDir(filepath.Join(b.dir, baseGit), gitDir); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	if err := p.catchUp(ctx, b, gitDir); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	if err := disk.Write(dir+overEnd, []byte(b.Commit), 0o600); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	return &Clone{Dir: dir, project: p.Project, over: b.Commit}, nil
}

// catchUp brings a copy of a base's git folder to the project's own commit.
func (p Overlays) catchUp(ctx context.Context, b *Base, gitDir string) error {
	if err := writeRefs(p.Project, gitDir); err != nil || b.Commit == p.Base {
		return err
	}
	if err := packTo(ctx, p.Project, gitDir, string(p.Base), "^"+string(b.Commit)); err != nil {
		return err
	}
	_, err := p.git.Run(ctx, git.Command{GitDir: gitDir, Args: []string{"read-tree", "-i", "-m", string(b.Commit), string(p.Base)}})
	return err
}

// overOf reads over which commit's base a clone is a layer; "" is none.
func overOf(dir string) (Commit, error) {
	text, err := readOptional(dir+overEnd, 100)
	if err != nil || len(text) == 0 {
		return "", err
	}
	return ParseCommit(string(text))
}

// RemoveClone removes what a clone left in a folder, and beside it.
func RemoveClone(dir string) error {
	if err := ignoreMissing(os.Remove(dir + originEnd)); err != nil {
		return err
	}
	if err := registry.Discard(dir); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(dir + overEnd))
}

// Written is the folder of what an agent wrote into a clone: of a layer that is
// what it changed, and elsewhere all of the clone.
func Written(dir string) string {
	if over, err := overOf(dir); err != nil || over == "" {
		return dir
	}
	return filepath.Join(dir, nacre.LayerUpper)
}

// Left is what a clone leaves for a person to look at, once nobody works on it any more. It gives
// the folder, and for a layer the commit from which the files in it differ, which is none for a
// whole clone. What only the kernel needed goes: an ordinary user cannot look into it.
func Left(dir string) (kept string, over Commit, err error) {
	over, err = overOf(dir)
	if err != nil || over == "" {
		return dir, "", err
	}
	return filepath.Join(dir, nacre.LayerUpper), over, registry.Discard(filepath.Join(dir, nacre.LayerWork))
}

// makeLayer makes the folders that an overlay's layer is kept in.
func makeLayer(dir string) error {
	for _, name := range []string{nacre.LayerUpper, nacre.LayerWork} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// copyGitDir makes a git folder of another's, with none of its inodes: where the
// file system shares what two files have in common, packs take no room, of any size.
func copyGitDir(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		if d.IsDir() {
			return os.Mkdir(target, 0o755)
		}
		if _, err := copyTimed(name, target, math.MaxInt64); err != nil {
			return err
		}
		return os.Chmod(target, 0o644)
	})
}

// Layer makes a tree of a base and a layer over it. dir, which is empty or missing, gets the files
// in which they differ, and what hides those that are gone.
func (p Overlays) Layer(ctx context.Context, b *Base, tree Tree, dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.layer(ctx, b, tree, dir)
}

func (p Overlays) layer(ctx context.Context, b *Base, tree Tree, dir string) error {
	d, err := p.deltaFrom(ctx, b, tree)
	if err != nil {
		return err
	}
	if err := errors.Join(disk.Empty(dir), makeLayer(dir)); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(dir, nacre.LayerUpper))
	if err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	err = p.writeEntries(ctx, root, d.written)
	for _, name := range d.hidden {
		if err == nil {
			err = hide(root, name)
		}
	}
	return errors.Join(err, root.Close())
}

// LayerMatches proves that a base with the layer in dir over it is exactly a tree. No file of the
// base has changed since it was made, and the layer holds just the files in which they differ, byte
// for byte.
func (p Overlays) LayerMatches(ctx context.Context, b *Base, tree Tree, dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, err := p.deltaFrom(ctx, b, tree)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(dir, nacre.LayerUpper))
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	keep := func(string) (string, error) { return "", nil }
	admit := func(string, int64) error { return nil }
	w := &walker{objects: p.objects, root: root, skipFile: keep, skipDir: keep, admit: admit, files: map[string]found{}, layer: overlay.Shape{}}
	if err := errors.Join(w.walk(ctx, ".", 0), root.Close()); err != nil {
		return err
	}
	if err := w.differs(d.written, tree); err != nil {
		return err
	}
	var hidden []string
	for name, kind := range w.layer {
		switch kind {
		case overlay.Gone:
			hidden = append(hidden, name)
		case overlay.Opaque:
			return fmt.Errorf("the folder %q of the layer hides what is below it: %w", name, ErrUnsafe)
		case overlay.Folder, overlay.File:
		}
	}
	slices.Sort(hidden)
	if !slices.Equal(hidden, d.hidden) {
		return fmt.Errorf("the layer over tree %.12s hides other files than it should: %w", tree, ErrUnsafe)
	}
	return b.Whole(ctx)
}

// delta is what a layer over a base has to hold.
type delta struct {
	written map[string]entry
	// hidden are the files and folders of the base that are gone, sorted.
	hidden []string
}

// deltaFrom compares a base with a tree.
func (p Overlays) deltaFrom(ctx context.Context, b *Base, tree Tree) (delta, error) {
	d := delta{written: map[string]entry{}}
	if _, err := ParseTree(string(tree)); err != nil {
		return d, err
	}
	ops, err := p.differences(ctx, string(b.Commit), string(tree))
	if err != nil {
		return d, err
	}
	var gone []string
	for _, o := range ops {
		if o.deletes() {
			gone = append(gone, o.path)
		} else {
			d.written[o.path] = o.to
		}
	}
	if len(gone) > 0 {
		d.hidden, err = p.hiddenBy(ctx, gone, tree)
	}
	return d, err
}

// hiddenBy are the topmost names that a layer has to hide so that files are gone. A folder that
// nothing is left in is not there, as it is not in a checkout.
func (p Overlays) hiddenBy(ctx context.Context, gone []string, tree Tree) ([]string, error) {
	entries, err := p.listTree(ctx, string(tree))
	if err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for name := range entries {
		for _, parent := range parents(name) {
			folders[parent] = true
		}
	}
	var hidden []string
	for _, name := range gone {
		for _, at := range append(parents(name), name) {
			_, file := entries[at]
			if file || at == name && folders[at] {
				break // what is there now hides what was
			}
			if !folders[at] {
				hidden = append(hidden, at)
				break
			}
		}
	}
	slices.Sort(hidden)
	return slices.Compact(hidden), nil
}

// hide puts into a layer what the kernel takes for a file that is gone.
func hide(root *os.Root, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	in, err := root.OpenFile(path.Dir(name), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	err = disk.Whiteout(int(in.Fd()), path.Base(name))
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("layer: hide %q: %w", name, err)
	}
	return nil
}

// covered is a layer with the base that it is over; without a layer nothing is.
type covered struct {
	layer overlay.Shape
	base  map[string]entry
}

// complete adds to what the layer has what the base shows through it.
func (c covered) complete(files map[string]found) {
	if c.layer == nil {
		return
	}
	for name, e := range c.base {
		if _, own := files[name]; !own && e.mode != modeGitlink && !c.layer.Hides(name) {
			files[name] = found{entry: e}
		}
	}
}
