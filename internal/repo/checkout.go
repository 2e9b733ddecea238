package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Checkout writes a tree into a directory that is empty or missing: bytes as
// they are in the tree, no filters, no hooks, nothing outside the directory.
// Submodules become empty directories.
func (p *Project) Checkout(ctx context.Context, tree Tree, dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := ParseTree(string(tree)); err != nil {
		return err
	}
	if err := disk.Empty(dir); err != nil {
		return err
	}
	return p.checkout(ctx, string(tree), dir)
}

func (o *objects) checkout(ctx context.Context, treeish, dir string) error {
	entries, err := o.listTree(ctx, treeish)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("check out: %w", err)
	}
	err = o.writeEntries(ctx, root, entries)
	return errors.Join(err, root.Close())
}

func (o *objects) writeEntries(ctx context.Context, root *os.Root, entries map[string]entry) error {
	paths := make([]string, 0, len(entries))
	var links []string
	for name, e := range entries {
		switch e.mode {
		case modeGitlink:
			if err := root.MkdirAll(name, 0o755); err != nil {
				return fmt.Errorf("check out: %w", err)
			}
		case modeLink:
			links = append(links, name)
		default:
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	slices.Sort(links)
	var total atomic.Int64 // of what all have written
	write := func(ctx context.Context, paths []string) error {
		made := map[string]bool{".": true}
		return o.withBlobs(ctx, paths, entries, func(name string, e entry, size int64, content io.Reader) error {
			if total.Add(size) > MaxTree {
				return fmt.Errorf("files of more than %d bytes: %w", int64(MaxTree), ErrTooBig)
			}
			if dir := path.Dir(name); !made[dir] {
				if err := root.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				made[dir] = true
			}
			return writeEntry(root, name, e.mode, size, content)
		})
	}
	if err := disk.Spread(ctx, paths, write); err != nil {
		return err
	}
	return write(ctx, links) // last: no file is ever written through one
}

// withBlobs calls use with each path's content.
func (o *objects) withBlobs(ctx context.Context, paths []string, entries map[string]entry,
	use func(name string, e entry, size int64, content io.Reader) error,
) error {
	if len(paths) == 0 {
		return nil
	}
	ids := make([]string, len(paths))
	for i, name := range paths {
		ids[i] = entries[name].id
	}
	source, err := o.openBlobs(ctx, ids)
	if err != nil {
		return err
	}
	var total int64
	for i, name := range paths {
		err = source.next(ids[i], func(size int64, content io.Reader) error {
			if total += size; total > MaxTree {
				return fmt.Errorf("files of more than %d bytes: %w", int64(MaxTree), ErrTooBig)
			}
			return use(name, entries[name], size, content)
		})
		if err != nil {
			err = fmt.Errorf("write %q: %w", name, err)
			break
		}
	}
	return source.finish(err)
}

// writeEntry makes one new file or link.
func writeEntry(root *os.Root, name, mode string, size int64, content io.Reader) error {
	if mode == modeLink {
		if size > MaxPath {
			return fmt.Errorf("link target of %d bytes: %w", size, ErrTooBig)
		}
		target, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if strings.ContainsRune(string(target), 0) {
			return fmt.Errorf("link target %q: %w", target, ErrUnsafe)
		}
		return root.Symlink(string(target), name)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions(mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(content, size)) // with no more room than it needs
	return errors.Join(err, f.Close())
}

func permissions(mode string) os.FileMode {
	if mode == modeExec {
		return 0o777
	}
	return 0o666
}
