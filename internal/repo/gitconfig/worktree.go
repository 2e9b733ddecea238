package gitconfig

import (
	"path/filepath"
	"strings"
)

// WorkTree reads core.worktree from the text of a git directory's own configuration, and
// returns "" where it is not set. It reads what git itself writes; a file that says it in
// another way is taken as not saying it.
func WorkTree(text, gitDir string) string {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section != "[core]" || !strings.EqualFold(strings.TrimSpace(key), "worktree") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if !filepath.IsAbs(value) {
			value = filepath.Join(gitDir, value)
		}
		if resolved, err := filepath.EvalSymlinks(value); err == nil {
			return resolved
		}
		return filepath.Clean(value)
	}
	return ""
}
