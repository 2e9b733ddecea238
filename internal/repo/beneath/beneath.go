// Package beneath opens folders of a tree in which others work meanwhile. It follows no link, also
// none that takes a folder's place while it is opened: [os.Root] follows those that stay in the tree,
// where .git is.
package beneath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrNone says that there is no such folder: it is missing, or something on the way is no
// folder, or became another one meanwhile.
var ErrNone = errors.New("no such folder")

// Open opens a folder by its path below a root, where "." is the root itself. missing, unless nil, may make
// a folder that is not there. The caller closes what is opened.
func Open(root *os.Root, path string, missing func(in *os.Root, name string) error) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil || path == "." {
		return at, err
	}
	for name := range strings.SplitSeq(path, "/") {
		next, err := step(at, name, missing)
		_ = at.Close() // nothing was written through it that is not there
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func step(in *os.Root, name string, missing func(in *os.Root, name string) error) (*os.Root, error) {
	seen, err := in.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && missing != nil {
		if err = missing(in, name); err == nil {
			seen, err = in.Lstat(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !seen.IsDir():
		return nil, ErrNone
	case err != nil:
		return nil, err
	}
	next, err := in.OpenRoot(name)
	if err != nil {
		return nil, swapped(err)
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		return nil, errors.Join(ErrNone, err, next.Close())
	}
	return next, nil
}

// swapped is ErrNone where a folder was not opened since it became something else, such as a link that
// leads out, of which [os.Root] says no more than that.
func swapped(err error) error {
	var failed syscall.Errno
	if errors.As(err, &failed) && failed != syscall.ENOENT && failed != syscall.ENOTDIR && failed != syscall.ELOOP {
		return err
	}
	return ErrNone
}
