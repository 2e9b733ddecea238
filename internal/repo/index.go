package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

const (
	// indexLock is git's own lock on a work tree's index.
	indexLock = "index.lock"
	// maxIndex is the largest index that is read, in bytes.
	maxIndex = 1 << 30
)

// indexCopy is an index outside the user's git directory.
type indexCopy struct {
	vault vault
	path  string
	// existed tells whether the user had one.
	existed bool
}

// copyIndex copies the user's index with its time, on which git's guard
// against racing edits depends.
func (w *worktree) copyIndex(ctx context.Context) (*indexCopy, error) {
	dir, err := os.MkdirTemp(w.vault.scratch(), "index-")
	if err != nil {
		return nil, fmt.Errorf("copy index: %w", err)
	}
	c := &indexCopy{vault: w.vault, path: filepath.Join(dir, "index")}
	c.existed, err = copyTimed(filepath.Join(w.place.gitDir, "index"), c.path, maxIndex)
	if err == nil && c.existed {
		err = w.copySharedIndex(ctx)
	}
	if err != nil {
		c.remove()
		return nil, fmt.Errorf("copy index: %w", err)
	}
	return c, nil
}

// copySharedIndex copies what a split index refers to, by its name.
func (w *worktree) copySharedIndex(ctx context.Context) error {
	names, err := filepath.Glob(quoteGlob(w.place.gitDir) + "/sharedindex.*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := copyTimed(name, filepath.Join(w.vault.dir, filepath.Base(name)), maxIndex); err != nil {
			return err
		}
	}
	return nil
}

func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (c *indexCopy) command(workTree string, args ...string) git.Command {
	return git.Command{GitDir: c.vault.dir, WorkTree: workTree, Index: c.path, Args: args}
}

// identity tells an index that was not written since: each writing makes a new file.
func (c *indexCopy) identity() (string, error) {
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano()), nil
}

func (c *indexCopy) remove() {
	_ = os.RemoveAll(filepath.Dir(c.path)) // a copy in our own directory
}

func copyTimed(from, to string, most int64) (existed bool, err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := in.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = fmt.Errorf("%s: %w", from, ErrUnsafe)
	}
	if err != nil {
		return false, errors.Join(err, in.Close())
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, in.Close(), out.Close())
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return true, err
}

// lockIndex takes git's lock with a file that says whose it is, so that it can
// be told from another's after a crash. It is made whole by a link.
func (h *host) lockIndex(token string) (locked bool, err error) {
	root, err := os.OpenRoot(h.place.gitDir)
	if err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if mine, err := ownLock(root, token); mine || err != nil {
		return mine, err
	}
	temporary := "nacre-" + token + ".lock"
	if err := ignoreMissing(root.Remove(temporary)); err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	if err := h.copyInto(root, temporary, strings.NewReader(token), 0o644); err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	err = linkOnceFree(root, temporary)
	gone := root.Remove(temporary)
	if errors.Is(err, fs.ErrExist) {
		return false, gone
	}
	if err = errors.Join(err, gone); err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	return true, nil
}

// Git commands and other landings hold the lock for a moment: they are waited for.
const (
	lockWait = 3 * time.Second
	lockPoll = 10 * time.Millisecond
)

func linkOnceFree(root *os.Root, temporary string) error {
	for waited := time.Duration(0); ; waited += lockPoll {
		err := root.Link(temporary, indexLock)
		if !errors.Is(err, fs.ErrExist) || waited >= lockWait {
			return err
		}
		time.Sleep(lockPoll)
	}
}

// ownLock reports whether the lock is this landing's.
func ownLock(root *os.Root, token string) (bool, error) {
	f, err := root.Open(indexLock)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	info, err := f.Stat()
	var text []byte
	if err == nil && info.Size() == int64(len(token)) {
		text, err = readOpen(f, int64(len(token)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	return token != "" && string(text) == token, nil
}

// unlockIndex removes what this landing left in the git directory: its lock,
// never another's.
func (h *host) unlockIndex(token string) (err error) {
	if token == "" {
		return nil
	}
	root, err := os.OpenRoot(h.place.gitDir)
	if err != nil {
		return fmt.Errorf("unlock index: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, end := range []string{".lock", ".index"} {
		if err := ignoreMissing(root.Remove("nacre-" + token + end)); err != nil {
			return fmt.Errorf("unlock index: %w", err)
		}
	}
	mine, err := ownLock(root, token)
	if err != nil || !mine {
		return err
	}
	if err := root.Remove(indexLock); err != nil {
		return fmt.Errorf("unlock index: %w", err)
	}
	return nil
}

// installIndex puts the new index in place, with its time: git's guard against
// racing edits compares with it.
func (h *host) installIndex(index *indexCopy, token string) (err error) {
	root, err := os.OpenRoot(h.place.gitDir)
	if err != nil {
		return fmt.Errorf("new index: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	in, err := os.Open(index.path)
	if err != nil {
		return fmt.Errorf("new index: %w", err)
	}
	temporary := "nacre-" + token + ".index"
	var at time.Time
	info, err := in.Stat()
	if err == nil {
		at = info.ModTime()
		err = ignoreMissing(root.Remove(temporary))
	}
	if err == nil {
		err = h.copyInto(root, temporary, in, h.indexMode(root))
	}
	if err = errors.Join(err, in.Close()); err == nil {
		err = root.Chtimes(temporary, at, at)
	}
	if err == nil {
		err = root.Rename(temporary, "index")
	}
	if err != nil {
		return fmt.Errorf("new index: %w", err)
	}
	return nil
}

// indexMode keeps the permissions of the index that is replaced.
func (h *host) indexMode(root *os.Root) os.FileMode {
	if info, err := root.Lstat("index"); err == nil && info.Mode().IsRegular() {
		return info.Mode().Perm()
	}
	return 0o644
}
