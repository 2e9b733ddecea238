package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// plainGitDir refuses a git directory with a link that would lead what is about to be written elsewhere.
func (h *host) plainGitDir(branch string) error {
	names := []string{"objects", "objects/pack", "refs", "refs/heads", "logs", "logs/refs", "logs/refs/heads", "logs/HEAD", "packed-refs"}
	for _, parent := range append(parents(branch), branch) {
		if parent != "" {
			names = append(names, "refs/heads/"+parent, "logs/refs/heads/"+parent)
		}
	}
	for _, name := range names {
		if err := refuseLink(filepath.Join(h.place.commonDir, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"logs", "logs/HEAD", "index", "index.lock"} {
		if err := refuseLink(filepath.Join(h.place.gitDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func refuseLink(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("git directory: %w", err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a link or special file: %w; replace it with what it leads to", path, ErrUnsafe)
	}
	return nil
}

// export copies the objects that a commit has beyond another into the user's
// object store, as one pack. git never runs there.
func (w *worktree) export(ctx context.Context, commit, beyond Commit) error {
	dir, err := os.MkdirTemp(w.vault.scratch(), "pack-")
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	err = w.exportFrom(ctx, dir, commit, beyond)
	return errors.Join(err, os.RemoveAll(dir))
}

func (w *worktree) exportFrom(ctx context.Context, dir string, commit, beyond Commit) error {
	name, err := w.git.Line(ctx, git.Command{
		GitDir: w.vault.dir, Stdin: lines(string(commit), "^"+string(beyond)),
		Args: []string{"pack-objects", "--revs", "-q", "--non-empty", "--delta-base-offset", filepath.Join(dir, "pack")},
	})
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	if name == "" {
		return nil // nothing is new
	}
	if !objectForm().MatchString(name) {
		return fmt.Errorf("copy objects: %w", errDamaged)
	}
	root, err := os.OpenRoot(filepath.Join(w.place.commonDir, "objects"))
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	// A pack counts once its index is there.
	for _, end := range []string{".pack", ".idx"} {
		if err = w.install(root, filepath.Join(dir, "pack-"+name+end), "pack/pack-"+name+end); err != nil {
			break
		}
	}
	return errors.Join(err, root.Close())
}

// install copies a file into the user's object store, whole or not at all.
func (h *host) install(root *os.Root, from, to string) error {
	if _, err := root.Lstat(to); err == nil {
		return nil // named by its content
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	temporary := "pack/tmp_nacre_" + token() + filepath.Ext(to)
	err = errors.Join(h.copyInto(root, temporary, in, 0o444), in.Close())
	if err == nil {
		err = root.Rename(temporary, to)
	}
	if err == nil {
		err = disk.SyncDir(filepath.Join(h.place.commonDir, "objects", "pack"))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy objects: %w", err), ignoreMissing(root.Remove(temporary)))
	}
	return nil
}

// copyInto writes a new file that belongs to the repository's owner.
func (h *host) copyInto(root *os.Root, name string, from io.Reader, mode os.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, h.give(f), f.Sync(), f.Close())
}

// give hands a file that root made to the repository's owner.
func (h *host) give(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(h.place.uid, h.place.gid)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
