package registry

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// atOnce is how many names of a folder are read at once.
const atOnce = 1024

// Discard removes a folder that others than its owner could write to, such as an agent. Folders may
// have been left in it that their owner may not change, which keep what they hold. Nothing may
// write to it any more. A folder that is missing is no error.
func Discard(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	opened := reopen(dir)
	if err := os.RemoveAll(dir); err != nil {
		return errors.Join(opened, err)
	}
	return nil
}

// reopen lets a folder's owner change it again, and every folder below it. It
// follows no link, and goes from folder to folder: a path may be too long.
func reopen(dir string) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(reopenIn(root, filepath.Base(dir)), root.Close())
}

func reopenIn(parent *os.Root, name string) error {
	info, err := parent.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	if err := parent.Chmod(name, 0o700); err != nil {
		return err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	list, err := dir.Open(".")
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	var names []string
	for err == nil {
		names, err = list.Readdirnames(atOnce)
		for _, inner := range names {
			err = errors.Join(err, reopenIn(dir, inner))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, list.Close(), dir.Close())
}
