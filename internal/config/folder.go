package config

import (
	"cmp"
	"os"
	"path/filepath"
)

// ProjectFolder is the folder with all symbolic links resolved, once.
func ProjectFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", Errorf("project %s: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", Errorf("project %s is not a folder", dir)
	}
	return abs, nil
}

// OrDot is the folder, or the current one where none was given.
func OrDot(dir string) string { return cmp.Or(dir, ".") }
