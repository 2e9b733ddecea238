package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

const (
	// storeFolder lies among the plugins; the dot keeps it from being one.
	storeFolder   = ".store"
	stagingPrefix = ".staging-"
)

// staging is a folder in which a version is made ready. It is locked while
// somebody works in it, so that what a dead process left can be told apart.
type staging struct {
	dir  string
	lock *os.File
}

func (s *Store) openStaging() (*staging, error) {
	store := filepath.Join(s.Plugins, storeFolder)
	if err := os.MkdirAll(store, 0o755); err != nil { //nolint:gosec // plugins are programs, not secrets: whoever runs them reads them
		return nil, err
	}
	// One at a time: a staging area that is made and not yet locked looks like
	// one that was left.
	guard, err := os.Open(store)
	if err != nil {
		return nil, err
	}
	defer func() { _ = guard.Close() }() // which unlocks
	if err := unix.Flock(int(guard.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", store, err)
	}
	sweep(store)
	dir := filepath.Join(store, stagingPrefix+strings.ToLower(rand.Text()[:16]))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &staging{dir, lock}, nil
}

func (s *staging) close() error { return errors.Join(os.RemoveAll(s.dir), s.lock.Close()) }

// sweep removes what processes left that ended in the middle.
func sweep(store string) {
	left, _ := filepath.Glob(filepath.Join(store, stagingPrefix+"*")) // the pattern is well formed
	for _, dir := range left {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // tried again the next time
		}
		_ = f.Close() // only read from
	}
}

// fetch puts the source's files into the staging area as a plugin of this
// name, and reads them as the host will.
func (s *Store) fetch(ctx context.Context, in *staging, from source, name nacre.PluginName, ref string) (f pluginhost.Found, commit string, err error) {
	parent := filepath.Join(in.dir, "new")
	dir := filepath.Join(parent, string(name))
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // plugins are programs, not secrets: whoever runs them reads them
		return f, "", err
	}
	t, err := newTree(dir)
	if err != nil {
		return f, "", err
	}
	if from.protocol == "" {
		err = copyFolder(ctx, from.text, t)
	} else {
		commit, err = s.clone(ctx, filepath.Join(in.dir, "git"), from, ref, t)
	}
	if err = errors.Join(err, t.root.Close()); err != nil {
		return f, "", fmt.Errorf("%s: %w", from.text, err)
	}
	found, err := pluginhost.Discover(parent)
	if err != nil || len(found) != 1 {
		return f, "", errors.Join(err, fmt.Errorf("%s: it holds no plugin", from.text))
	}
	f = found[0]
	if f.Err != nil {
		said := strings.ReplaceAll(f.Err.Error(), f.Dir+string(filepath.Separator), "")
		return f, "", fmt.Errorf("%s: %s", from.text, said)
	}
	return f, commit, nil
}

func (s *Store) clone(ctx context.Context, dir string, from source, ref string, t *tree) (string, error) {
	g, err := newGit(dir, from, s.Getenv)
	if err != nil {
		return "", err
	}
	commit, err := g.fetch(ctx, ref)
	if err != nil {
		return "", err
	}
	return commit, g.write(ctx, commit, t)
}

// copyFolder copies the files of a folder, without the .git at its top.
func copyFolder(ctx context.Context, dir string, t *tree) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = copyBelow(ctx, root, ".", t)
	return errors.Join(err, root.Close())
}

func copyBelow(ctx context.Context, root *os.Root, below string, t *tree) error {
	f, err := root.Open(below)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(maxFiles + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(below, e.Name())
		if name == ".git" {
			continue
		}
		if e.IsDir() {
			if err = checkPath(name); err == nil {
				err = copyBelow(ctx, root, name, t)
			}
		} else {
			err = copyFile(root, name, e.Type(), t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(root *os.Root, name string, kind fs.FileMode, t *tree) error {
	if !kind.IsRegular() {
		return fmt.Errorf("%q is a link or a special file: put the file itself there", name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q changed while it was read", name)
	}
	if err == nil {
		err = t.admit(name, info.Size())
	}
	if err != nil {
		return err
	}
	return t.write(name, info.Mode().Perm()&0o111 != 0, info.Size(), f)
}

// hashOf is the host's hash of a folder of the store.
func hashOf(dir string) (string, error) {
	found, err := pluginhost.Discover(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	for _, f := range found {
		if string(f.Name) == filepath.Base(dir) && f.Hash != "" {
			return f.Hash, nil
		}
	}
	return "", fmt.Errorf("%s is not there, or cannot be read", dir)
}
