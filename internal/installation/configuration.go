package installation

import (
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/config"
)

// UnreadConfigs are files that somebody may take for the operator's config, beside that of
// dir: the one of another folder, and those that a project has.
func UnreadConfigs(dir string, getenv func(string) string) []string {
	candidates := []string{"nacre.toml", filepath.Join(".nacre", config.FileName)}
	if home := getenv("HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, ".config", "nacre", config.FileName), filepath.Join(home, ".nacre", config.FileName), filepath.Join(home, ".nacre.toml"))
	}
	var unread []string
	for _, path := range candidates {
		path, err := filepath.Abs(path)
		if err != nil {
			continue // there is no working folder
		}
		if _, err := os.Lstat(path); err == nil && path != filepath.Join(dir, config.FileName) {
			unread = append(unread, path)
		}
	}
	return unread
}
