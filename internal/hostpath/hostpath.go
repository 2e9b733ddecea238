// Package hostpath tells of paths of the host: which lies in which folder, and which folder
// keeps this process out. It changes nothing.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Contains tells whether a path is a folder, or lies below it. Both are absolute, and without links.
func Contains(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// Readable says why a folder cannot be read or entered by this process, and what to do: of the
// folders on the way to it, which one keeps it out. It is nil where the folder can be, and where
// the reason is another one, such as that it is not there, or no folder. dir is absolute.
func Readable(dir string) error {
	for _, at := range append(above(dir), dir) {
		need := uint32(unix.X_OK)
		if at == dir {
			need |= unix.R_OK
		}
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			return nil
		}
		if err := unix.Access(at, need); errors.Is(err, fs.ErrPermission) {
			advice := "ask its owner to let you in, or work on a folder of your own"
			whose, yours := owner(at)
			if yours {
				advice = "chmod u+rwx " + at + " lets you in"
			}
			return fmt.Errorf("%s may not be read by you: %s\n       %s", at, whose, advice)
		}
	}
	return nil
}

// Writable says which of the folders cannot be written by this process, and why; nil where all
// can be. One that is not there is left out.
func Writable(dirs ...string) error {
	for _, dir := range dirs {
		err := unix.Access(dir, unix.W_OK)
		switch whose, _ := owner(dir); {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("%s cannot be written (%s)", dir, whose)
		default:
			return fmt.Errorf("%s cannot be written (%w)", dir, err)
		}
	}
	return nil
}

// above are the folders on the way to one, from the top.
func above(dir string) []string {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	return append(above(parent), parent)
}

// owner says whose a file is, and with which mode.
func owner(path string) (whose string, yours bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "nobody may see whose it is", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "its owner is not known", false
	}
	name := "user " + strconv.Itoa(int(stat.Uid))
	if known, err := user.LookupId(strconv.Itoa(int(stat.Uid))); err == nil {
		name = known.Username
	}
	if yours = int(stat.Uid) == os.Getuid(); yours {
		name = "you"
	}
	return fmt.Sprintf("it belongs to %s, with mode %s", name, info.Mode()), yours
}
