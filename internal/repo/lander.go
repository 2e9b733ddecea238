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
	"strconv"
	"syscall"
)

// lander changes files in the user's work tree. It never follows a link, also none that an agent
// puts there meanwhile, never overwrites what it does not know, and can be run again after a crash.
type lander struct {
	walker
	landing *landing
	token   string
}

// modeDir is how a lander sees a directory.
const modeDir = "040000"

func (p *landing) openLander(j journal) (*lander, error) {
	root, err := os.OpenRoot(p.place.top)
	if err != nil {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	return &lander{walker: walker{objects: p.objects, root: root}, landing: p, token: j.Token}, nil
}

// state enters a path's directory, and is what the path holds now: the zero entry for nothing, also
// where something above it is no directory.
func (l *lander) state(name string) (entry, error) {
	if whole, err := l.enter(path.Dir(name), nil); err != nil || !whole {
		return entry{}, err
	}
	info, err := l.near.Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	case info.IsDir():
		return entry{mode: modeDir}, nil
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return entry{mode: info.Mode().Type().String()}, nil
	}
	f, err := l.read(name, info, io.Discard)
	return f.entry, err
}

// blocked are untracked things where a file of the landing would go.
func (l *lander) blocked(ops []op) ([]string, error) {
	gone := deletions(ops)
	var list []string
	for _, o := range ops {
		if o.deletes() || o.to.mode == modeGitlink {
			continue
		}
		name, err := l.blocker(o, gone)
		if err != nil {
			return nil, fmt.Errorf("work tree: %w", err)
		}
		if name != "" {
			list = append(list, name)
		}
	}
	return slices.Compact(list), nil
}

func (l *lander) blocker(o op, gone map[string]bool) (string, error) {
	for _, parent := range parents(o.path) {
		info, err := l.root.Lstat(parent)
		if errors.Is(err, fs.ErrNotExist) || err == nil && gone[parent] && !info.IsDir() {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			return parent, nil
		}
	}
	info, err := l.root.Lstat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case info.IsDir():
		return l.remains(o.path, gone)
	case o.from.mode == "" || o.from.mode == modeGitlink:
		return o.path, nil
	}
	return "", nil
}

// remains finds a file in a directory that the landing does not delete.
func (l *lander) remains(dir string, gone map[string]bool) (string, error) {
	entries, err := l.readDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if found, err := l.remains(name, gone); err != nil || found != "" {
				return found, err
			}
		case !gone[name]:
			return name, nil
		}
	}
	return "", nil
}

// apply deletes, then writes. It returns the paths that hold neither what the
// old commit nor what the new one has: they are somebody's, and stay.
func (l *lander) apply(ctx context.Context, ops []op) (left []string, err error) {
	writes := make(map[string]entry)
	var names []string
	for i, o := range slices.Backward(ops) {
		if err := l.clearTemporary(o, i); err != nil {
			return nil, err
		}
		if !o.deletes() {
			continue
		}
		ok, err := l.remove(o)
		if err != nil {
			return nil, fmt.Errorf("delete %q: %w", o.path, err)
		}
		if !ok {
			left = append(left, o.path)
		}
	}
	l.landing.reached("deleted")
	index := make(map[string]int)
	for i, o := range ops {
		if o.deletes() || o.to.mode == modeGitlink {
			continue
		}
		writes[o.path], index[o.path] = o.to, i
		names = append(names, o.path)
	}
	err = l.objects.withBlobs(ctx, names, writes, func(name string, _ entry, size int64, content io.Reader) error {
		i := index[name]
		ok, err := l.replace(ops[i], i, size, content)
		if err == nil && !ok {
			left = append(left, name)
		}
		l.landing.reached("file")
		return err
	})
	slices.Sort(left)
	return left, err
}

// temporaryName is what a file is called, in its directory, before it takes its place: known
// after a crash.
func (l *lander) temporaryName(i int) string { return ".nacre-" + l.token + "-" + strconv.Itoa(i) }

func (l *lander) clearTemporary(o op, i int) error {
	if whole, err := l.enter(path.Dir(o.path), nil); err != nil || !whole {
		return err
	}
	if err := ignoreMissing(l.near.Remove(l.temporaryName(i))); err != nil {
		return fmt.Errorf("work tree: %w", err)
	}
	return nil
}

// remove deletes a file that is as the old commit has it, and the directories
// that it leaves empty.
func (l *lander) remove(o op) (ok bool, err error) {
	now, err := l.state(o.path)
	if err != nil {
		return false, err
	}
	switch {
	case now == entry{}:
		return true, nil
	case o.from.mode == modeGitlink && now.mode == modeDir:
		_ = l.near.Remove(path.Base(o.path)) // what is in a submodule stays
		return true, nil
	case now.mode == modeDir:
		// A crash came after this path had become a directory.
		return true, nil
	case now != o.from:
		return false, nil
	}
	if err := l.near.Remove(path.Base(o.path)); err != nil {
		return false, err
	}
	for _, parent := range slices.Backward(parents(o.path)) {
		if whole, err := l.enter(path.Dir(parent), nil); err != nil || !whole || l.near.Remove(path.Base(parent)) != nil {
			break // not empty
		}
	}
	return true, nil
}

// replace puts the new file in place of the old one, whole.
func (l *lander) replace(o op, i int, size int64, content io.Reader) (ok bool, err error) {
	discard := func() (bool, error) {
		_, err := io.Copy(io.Discard, content)
		return false, err
	}
	now, err := l.state(o.path)
	if err != nil {
		return false, err
	}
	if now == o.to {
		_, err := discard()
		return true, err
	}
	if !o.expects(now) {
		return discard()
	}
	whole, err := l.enter(path.Dir(o.path), l.makeParent)
	if err != nil || !whole {
		_, drained := discard()
		return false, errors.Join(err, drained)
	}
	temporary, name := l.temporaryName(i), path.Base(o.path)
	if err := writeEntry(l.near, temporary, o.to.mode, size, content); err != nil {
		return false, err
	}
	if err := l.own(l.near, temporary); err != nil {
		return false, err
	}
	if now.mode == modeDir {
		_ = l.near.Remove(name) // an empty one makes room; any other stays
	}
	err = l.near.Rename(temporary, name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return false, l.near.Remove(temporary)
	}
	return true, err
}

// expects reports whether a path is as the old commit has it. Where that has
// nothing, a directory may remain of what was deleted; a submodule is one.
func (o op) expects(now entry) bool {
	switch o.from.mode {
	case "", modeGitlink:
		return now == entry{} || now.mode == modeDir
	}
	return now == o.from
}

// makeParent makes a directory on the way to a path, unless something came there meanwhile.
func (l *lander) makeParent(in *os.Root, name string) error {
	if err := in.Mkdir(name, 0o777); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return l.own(in, name)
}

// own hands what root made to the repository's owner.
func (l *lander) own(in *os.Root, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return in.Lchown(name, l.landing.place.uid, l.landing.place.gid)
}
