package repo

import (
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre/internal/planted"
)

// checkPath refuses a path that would leave the project, or that git on some
// system takes for its own directory.
func checkPath(p string) error {
	if len(p) > MaxPath || strings.Count(p, "/") >= MaxDepth {
		return fmt.Errorf("path %.80q: %w", p, ErrTooBig)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return fmt.Errorf("path %q: %w", p, ErrUnsafe)
		}
		if planted.IsGitName(part) {
			return fmt.Errorf("path %q names a git directory: %w", p, ErrUnsafe)
		}
	}
	return nil
}

// parents calls each directory above a path, the topmost first.
func parents(p string) []string {
	var dirs []string
	for i, c := range []byte(p) {
		if c == '/' {
			dirs = append(dirs, p[:i])
		}
	}
	return dirs
}
