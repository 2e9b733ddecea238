package home

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	cachesDir = "caches"
	layersDir = "layers"
	// fullFile says that the caches were seen to hold more than their quota.
	fullFile = "caches.full"
	// cachesLock is held by the session that has the caches.
	cachesLock = "caches.lock"
)

// Caches are what package managers and compilers keep for the next session: packages and
// what was built, which can be made again. One session at a time has them. They were
// filled by agents, and only what is sealed for the same group and project sees them (U-03).
type Caches struct {
	home *Home
	lock *disk.Lock
	// layers are those that the session was given.
	layers []string
}

// OpenCaches takes the caches of a home. Where another session has them, the error is
// [disk.ErrLocked]. Caches that were seen to be beyond their quota are emptied first.
func (h *Home) OpenCaches(ctx context.Context) (*Caches, error) {
	once, cancel := context.WithCancel(ctx)
	cancel()
	lock, err := disk.TakeLock(once, filepath.Join(h.dir, cachesLock))
	if err != nil {
		return nil, err
	}
	c := &Caches{home: h, lock: lock}
	full := filepath.Join(h.dir, fullFile)
	if _, missing := os.Lstat(full); missing == nil {
		err = registry.Discard(c.dir())
		if err == nil {
			err = os.Remove(full)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Caches) dir() string { return filepath.Join(c.home.dir, cachesDir) }

// at is the folder of what a name, such as a path inside, stands for.
func (c *Caches) at(dir, name string) string {
	return filepath.Join(c.dir(), dir, strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", "%"))
}

// Mounts are caches in their places below the home inside.
func (c *Caches) Mounts(paths []string) ([]nacre.Mount, error) {
	var mounts []nacre.Mount
	for _, path := range paths {
		if err := (Kind{Path: path}).check(); err != nil {
			return nil, err
		}
		at := c.at(dataDir, path)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, err
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: at, Target: Inside + "/" + path})
	}
	return mounts, nil
}

// Layer is the folder of a layer that keeps what is written over the folder at target
// inside, a cache of the host's. A layer whose session was cut short is made anew: the
// kernel need not have written all of it to the disk.
func (c *Caches) Layer(target string) (string, error) {
	layer := c.at(layersDir, target)
	work := filepath.Join(layer, nacre.LayerWork)
	if _, err := os.Lstat(work); !errors.Is(err, fs.ErrNotExist) {
		if err := registry.Discard(layer); err != nil {
			return "", err
		}
	}
	for _, dir := range []string{filepath.Join(layer, nacre.LayerUpper), work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	c.layers = append(c.layers, layer)
	return layer, nil
}

// Measure looks at how much the caches hold, in bytes, and remembers where that is more
// than their quota, or cannot be counted. It may be given up at any time.
func (c *Caches) Measure(ctx context.Context, quota int64) error {
	held, err := count(ctx, c.dir())
	if err != nil || held.bytes <= quota && !held.more {
		return err
	}
	return disk.Write(filepath.Join(c.home.dir, fullFile), nil, 0o600)
}

// Close lets the next session have the caches, empty ones too: to make their folders anew
// takes longer than all else of it. Nothing may run in the session any more.
func (c *Caches) Close() error {
	var errs []error
	for _, layer := range c.layers {
		errs = append(errs, registry.Discard(filepath.Join(layer, nacre.LayerWork)))
		_ = os.Remove(filepath.Join(layer, nacre.LayerUpper)) // only where it is empty, here and below
		_ = os.Remove(layer)
	}
	_ = os.Remove(filepath.Join(c.home.dir, dataDir)) // only where it is empty: a home of caches alone has none
	return errors.Join(append(errs, c.lock.Release())...)
}
