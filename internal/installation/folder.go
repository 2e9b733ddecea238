package installation

import (
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/registry"
)

// ProjectFolder is [config.ProjectFolder] of a folder that this process can read and enter.
// Where it cannot, the error names the folder that keeps it out.
func ProjectFolder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil && dir != "" {
		err = registry.Readable(abs)
	}
	if err != nil {
		return "", config.Errorf("project %s: %w", dir, err)
	}
	return config.ProjectFolder(dir)
}
