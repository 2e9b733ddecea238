package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// The limits of a tree, as those of what the repository room checks out.
const (
	maxEntries = 1_000_000
	maxDepth   = 256
)

// The kinds of change, as nacre.Change has them. A rename is a deletion and an
// addition: both paths count.
const (
	added    = "added"
	modified = "modified"
	deleted  = "deleted"
)

// file is a file or symbolic link of a tree. Folders are none: git knows no
// empty ones.
type file struct {
	link   bool
	exec   bool
	size   int64
	target string // of a link
}

// change is one path that differs.
type change struct {
	path, kind string
	// was and is are zero where there was, or is, none.
	was, is file
}

// delta is what differs between two folders, sorted by path, and what they hold.
type delta struct {
	changes    []change
	base, tree map[string]file
	// folders are those of the tree, empty ones too.
	folders map[string]bool
}

// compare reads both folders whole: neither a list of changes nor a time stamp
// is believed.
func compare(ctx context.Context, base, tree string) (d delta, err error) {
	before, err := openTree(base)
	if err != nil {
		return delta{}, err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	after, err := openTree(tree)
	if err != nil {
		return delta{}, err
	}
	defer func() { err = errors.Join(err, after.Close()) }()
	if d.base, _, err = list(ctx, before); err != nil {
		return delta{}, fmt.Errorf("the base: %w", err)
	}
	if d.tree, d.folders, err = list(ctx, after); err != nil {
		return delta{}, fmt.Errorf("the tree: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(d.base)) {
		was := d.base[name]
		is, ok := d.tree[name]
		if !ok {
			d.changes = append(d.changes, change{name, deleted, was, is})
			continue
		}
		same, err := sameFile(ctx, before, after, name, was, is)
		if err != nil {
			return delta{}, err
		}
		if !same {
			d.changes = append(d.changes, change{name, modified, was, is})
		}
	}
	for name, is := range d.tree {
		if _, ok := d.base[name]; !ok {
			d.changes = append(d.changes, change{path: name, kind: added, is: is})
		}
	}
	slices.SortFunc(d.changes, func(a, b change) int { return bytes.Compare([]byte(a.path), []byte(b.path)) })
	return d, nil
}

func openTree(dir string) (*os.Root, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the folder %q is not absolute", dir)
	}
	return os.OpenRoot(dir)
}

// list walks a folder, following no link.
func list(ctx context.Context, root *os.Root) (files map[string]file, folders map[string]bool, err error) {
	files, folders = map[string]file{}, map[string]bool{}
	type place struct {
		name  string
		depth int
	}
	for todo := []place{{name: "."}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		entries, err := readDir(root, at.name)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			name := path.Join(at.name, e.Name())
			if len(files)+len(folders) >= maxEntries || at.depth >= maxDepth {
				return nil, nil, fmt.Errorf("over %d files, or %d folders deep", maxEntries, maxDepth)
			}
			if e.IsDir() {
				folders[name] = true
				todo = append(todo, place{name, at.depth + 1})
				continue
			}
			if files[name], err = inspect(root, name); err != nil {
				return nil, nil, err
			}
		}
	}
	return files, folders, nil
}

func readDir(root *os.Root, name string) ([]os.DirEntry, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(maxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, errors.Join(err, f.Close())
}

func inspect(root *os.Root, name string) (file, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return file{}, err
	}
	switch {
	case info.Mode().IsRegular():
		return file{exec: info.Mode()&0o100 != 0, size: info.Size()}, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		return file{link: true, size: int64(len(target)), target: target}, err
	default:
		return file{}, fmt.Errorf("%q is neither a file nor a link (%s), which no checkout makes", name, info.Mode().Type())
	}
}

// sameFile compares bytes and mode.
func sameFile(ctx context.Context, before, after *os.Root, name string, was, is file) (bool, error) {
	if was != is {
		return false, nil
	}
	if was.link || was.size == 0 {
		return true, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	a, err := openFile(before, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = a.Close() }() // it was only read
	b, err := openFile(after, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = b.Close() }() // it was only read
	return sameBytes(a, b)
}

// openFile opens a regular file for reading; a pipe neither blocks nor passes.
func openFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q changed while it was read", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sameBytes compares two streams to their ends.
func sameBytes(a, b io.Reader) (bool, error) {
	const chunk = 64 << 10
	left, right := make([]byte, chunk), make([]byte, chunk)
	for {
		n, err := fill(a, left)
		if err != nil {
			return false, err
		}
		m, err := fill(b, right)
		if err != nil || !bytes.Equal(left[:n], right[:m]) {
			return false, err
		}
		if n < chunk {
			return true, nil
		}
	}
}

// fill reads until the buffer is full or the stream ends.
func fill(r io.Reader, buffer []byte) (int, error) {
	n, err := io.ReadFull(r, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}
