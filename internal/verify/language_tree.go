package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The limits of what is copied for the code under test.
const (
	// maxTreeFiles is how many files a checkout may have.
	maxTreeFiles = 300_000
	// maxTreeBytes is how much a copy of one may hold, in bytes.
	maxTreeBytes = 8 << 30
	// maxSource is the largest file that this room itself reads, in bytes.
	maxSource = 4 << 20
)

// checkout is what lies below a host folder, by slash path. It is listed once,
// and nothing in it is reached through a symbolic link.
type checkout struct {
	root  string
	files map[string]fs.FileMode // regular files and symbolic links
	dirs  map[string]bool
	// fetched is shown beside them.
	fetched Dependencies
}

func readCheckout(root string) (checkout, error) {
	c := checkout{root: root, files: map[string]fs.FileMode{}, dirs: map[string]bool{".": true}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.Name() == ".git" && rel != ".":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			c.dirs[rel] = true
			return nil
		case len(c.files) >= maxTreeFiles:
			return fmt.Errorf("more than %d files", maxTreeFiles)
		case !d.Type().IsRegular() && d.Type() != fs.ModeSymlink:
			return fmt.Errorf("%q is neither a file nor a symbolic link", rel)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		c.files[rel] = info.Mode()
		return nil
	})
	return c, err
}

// names are the paths of all files, sorted.
func (c checkout) names() []string {
	list := make([]string, 0, len(c.files))
	for name := range c.files {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// has says that a regular file is there.
func (c checkout) has(name string) bool {
	mode, ok := c.files[name]
	return ok && mode.IsRegular()
}

// read returns a regular file's bytes, or an error that is fs.ErrNotExist.
func (c checkout) read(name string) ([]byte, error) { return c.readUpTo(name, maxSource) }

// readUpTo is read with a limit of its own, in bytes.
func (c checkout) readUpTo(name string, limit int64) ([]byte, error) {
	if !c.has(name) {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	f, err := os.OpenInRoot(c.root, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is over %d bytes", name, limit)
	}
	return data, nil
}

// same says that a file is equal in both, or in neither.
func same(a, b checkout, name string) (bool, error) {
	ma, oka := a.files[name]
	mb, okb := b.files[name]
	if !oka || !okb || ma.Type() != mb.Type() {
		return oka == okb && ma.Type() == mb.Type(), nil
	}
	if ma.Type() == fs.ModeSymlink {
		la, errA := os.Readlink(filepath.Join(a.root, name))
		lb, errB := os.Readlink(filepath.Join(b.root, name))
		return la == lb, errors.Join(errA, errB)
	}
	return equalFiles(filepath.Join(a.root, name), filepath.Join(b.root, name))
}

func equalFiles(a, b string) (bool, error) {
	ia, errA := os.Lstat(a)
	ib, errB := os.Lstat(b)
	if err := errors.Join(errA, errB); err != nil || ia.Size() != ib.Size() {
		return false, err
	}
	da, errA := os.ReadFile(a)
	db, errB := os.ReadFile(b)
	return string(da) == string(db), errors.Join(errA, errB)
}

// item is one file of a layout: either the host's file at from, or data.
type item struct {
	from string
	mode fs.FileMode
	data []byte
}

// layout is what a scratch copy will hold, put together before a byte of it is
// written: no item lies below another, so that writing follows no link.
type layout struct {
	items map[string]item
	dirs  map[string]bool
	// modules are shown in it, and hide what lies there.
	modules []Module
}

func (c checkout) layout() layout {
	l := layout{items: make(map[string]item, len(c.files)), dirs: map[string]bool{}, modules: c.fetched.Modules}
	for name := range c.files {
		l.items[name] = c.item(name)
	}
	for dir := range c.dirs {
		l.dirs[dir] = true
	}
	return l
}

func (c checkout) item(name string) item {
	return item{from: filepath.Join(c.root, filepath.FromSlash(name)), mode: c.files[name]}
}

// clone is a layout that can be changed alone.
func (l layout) clone() layout { return layout{maps.Clone(l.items), maps.Clone(l.dirs), l.modules} }

// replaced says that an item is not the checkout's own file.
func (l layout) replaced(c checkout) bool {
	for name, i := range l.items {
		if i.from != c.item(name).from {
			return true
		}
	}
	return false
}

// put lays an item down, in the place of whatever is in its way.
func (l layout) put(name string, i item) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		delete(l.items, dir)
		l.dirs[dir] = true
	}
	if l.dirs[name] {
		for other := range l.items {
			if strings.HasPrefix(other, name+"/") {
				delete(l.items, other)
			}
		}
	}
	l.items[name] = i
}

// text lays a file of the host's own down.
func (l layout) text(name, data string) {
	l.put(name, item{data: []byte(data), mode: 0o644})
}

// bytes is what a regular item holds, up to maxSource.
func (l layout) bytes(name string) ([]byte, bool) {
	i, ok := l.items[name]
	if !ok || !i.mode.IsRegular() {
		return nil, false
	}
	if i.from == "" {
		return i.data, true
	}
	info, err := os.Lstat(i.from)
	if err != nil || info.Size() > maxSource {
		return nil, false
	}
	data, err := os.ReadFile(i.from)
	return data, err == nil
}

// names are the paths of all items, sorted.
func (l layout) names() []string {
	list := make([]string, 0, len(l.items))
	for name := range l.items {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// write makes the copy in dir, which is empty. Nothing in it is shared with
// where it came from.
func (l layout) write(dir string) error {
	left := int64(maxTreeBytes)
	for _, name := range l.names() {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		n, err := l.items[name].write(to, left)
		if err != nil {
			return err
		}
		if left -= n; left <= 0 {
			return fmt.Errorf("the tree holds more than %d bytes", int64(maxTreeBytes))
		}
	}
	return nil
}

func (i item) write(to string, left int64) (int64, error) {
	if i.mode.Type() == fs.ModeSymlink {
		target, err := os.Readlink(i.from)
		if err != nil {
			return 0, err
		}
		return 0, os.Symlink(target, to)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, i.mode.Perm()|0o600)
	if err != nil {
		return 0, err
	}
	if i.from == "" {
		n, err := out.Write(i.data)
		return int64(n), errors.Join(err, out.Close())
	}
	in, err := os.Open(i.from)
	if err != nil {
		return 0, errors.Join(err, out.Close())
	}
	n, err := io.Copy(out, io.LimitReader(in, left))
	return n, errors.Join(err, in.Close(), out.Close())
}
