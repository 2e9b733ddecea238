package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/nacre-dev/nacre/internal/gate"
)

// World is what the gates are told of a project and of the folder that the
// agent works in. They read nothing by themselves.
func World(project, dir string) gate.World {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then paths in it are refused
	}
	return gate.World{Project: project, Dir: dir, Home: home, FoldCase: foldsCase(project), Readlink: readlink, Count: countFiles}
}

// foldsCase tells whether the project's file system takes a folder's name in
// the other case for the same folder.
func foldsCase(project string) bool {
	swapped := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, filepath.Base(project))
	here, err := os.Stat(project)
	if err != nil || swapped == filepath.Base(project) {
		return false
	}
	there, err := os.Stat(filepath.Join(filepath.Dir(project), swapped))
	return err == nil && os.SameFile(here, there)
}

func readlink(path string) (string, bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", false, nil
	case err != nil:
		return "", false, err
	case info.Mode()&fs.ModeSymlink == 0:
		return "", false, nil
	}
	target, err := os.Readlink(path)
	return target, true, err
}

// errEnough ends a count that is over its limit.
var errEnough = errors.New("enough")

// countFiles counts what goes with a path, without following links.
func countFiles(path string, limit int) (int, error) {
	if strings.ContainsAny(path, "*?[") {
		if _, err := os.Lstat(path); err != nil {
			return 0, errors.New("it is a pattern")
		}
	}
	n, entries := 0, 0
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			n++
		}
		if entries++; n > limit || entries > maxEntries {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case errors.Is(err, errEnough) && n <= limit:
		return 0, fmt.Errorf("it holds more than %d folders", maxEntries)
	case errors.Is(err, errEnough):
		return n, nil
	}
	return n, err
}

// maxEntries is how many files and folders are looked at to count a deletion.
const maxEntries = 10000
