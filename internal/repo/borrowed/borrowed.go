// Package borrowed tells a repository whose objects are its own from one that shows those of
// another. An agent of the one would read the history of the other, and who wrote the git
// directory may have been an agent, or whoever packed an archive.
package borrowed

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

// maxAlternates is the longest list of other folders that is read, in bytes.
const maxAlternates = 1 << 20

// ErrBorrowed is a repository that shows objects of elsewhere. What wraps it names where.
var ErrBorrowed = errors.New("the repository borrows the objects of another one")

// Remedy gives a repository objects of its own.
const Remedy = "`git repack -a -d && rm .git/objects/info/alternates`"

// Check refuses a git directory whose objects are elsewhere, all of them or any: by a list of
// alternates, or by a link at whatever depth.
func Check(commonDir string) error {
	objects := filepath.Join(commonDir, "objects")
	list, err := disk.Read(filepath.Join(objects, "info", "alternates"), maxAlternates)
	if err == nil && strings.TrimSpace(string(list)) != "" {
		first, _, _ := strings.Cut(strings.TrimSpace(string(list)), "\n")
		return fmt.Errorf("%w, in %.200q, and an agent would see its history: if it may, %s gives this one objects of its own", ErrBorrowed, first, Remedy)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, or says so in a way that cannot be read: %w", ErrBorrowed, err)
	}
	return filepath.WalkDir(objects, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // git packed it meanwhile, or cannot read it either
		case err != nil:
			return err
		case e.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%w: %s is a link; replace it with what it leads to", ErrBorrowed, path)
		}
		return nil
	})
}
