package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
)

// ReadConfig reads and checks a config file, which is there, as each start does.
func ReadConfig(path string) (config.Config, error) {
	c, err := config.Read(path)
	if err == nil && c.Brain.Name != "" {
		if _, unknown := brain.Named(c.Brain.Name, brain.Options{}); unknown != nil {
			return config.Config{}, fmt.Errorf("%s: brain: %w", path, unknown)
		}
	}
	return c, err
}

// LoadConfig reads the config of the operator's config folder. A missing one is the
// zero Config, and one in another format is refused: nothing would hold that it says.
func LoadConfig(dir string) (config.Config, error) {
	for _, name := range []string{"config.yaml", "config.yml", "config.json"} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return config.Config{}, fmt.Errorf("%s: nacre reads %s alone, and nothing that this file says holds: write it there, and remove the file", path, config.FileName)
		}
	}
	c, err := ReadConfig(filepath.Join(dir, config.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return config.Config{}, nil
	}
	return c, err
}

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
