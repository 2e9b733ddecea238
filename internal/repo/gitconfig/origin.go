package gitconfig

import (
	"path/filepath"
	"strings"
)

// OfRepository tells whether a repository may say what an origin says, as git's --show-origin names
// it. It may where the file lies in one of the repository's git directories, or is a configuration
// of the user's. Such are ~/.gitconfig, another file at the top of home whose name begins so, or
// one below ~/.config/git. Whoever wrote the repository's configuration may include any file of the
// host, and an agent would read there what another repository says.
func OfRepository(origin, home string, gitDirs ...string) bool {
	file, ok := strings.CutPrefix(origin, "file:")
	if !ok || !filepath.IsAbs(file) {
		return false
	}
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	for _, dir := range gitDirs {
		if isBelow(dir, file) {
			return true
		}
	}
	if home, err = filepath.EvalSymlinks(home); err != nil {
		return false
	}
	return filepath.Dir(file) == home && strings.HasPrefix(filepath.Base(file), ".gitconfig") || isBelow(filepath.Join(home, ".config", "git"), file)
}

// isBelow takes both as resolved.
func isBelow(dir, file string) bool {
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}
