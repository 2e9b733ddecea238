package handler

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/plugin"
)

// ProjectMounts shows a folder to a handler, with what makes the host run code
// later as it is. In a folder that can be written the sandbox follows no link.
func ProjectMounts(dir string, may plugin.Project) ([]nacre.Mount, error) {
	if may != plugin.ProjectWrite {
		return []nacre.Mount{{Kind: nacre.BindReadOnly, Source: dir, Target: plugin.ProjectPath}}, nil
	}
	mounts := []nacre.Mount{{Kind: nacre.BindReadWrite, Source: dir, Target: plugin.ProjectPath}}
	for _, name := range process.LateExecution(dir) {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link, which cannot be kept from being written to", name)
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: path, Target: plugin.ProjectPath + "/" + name})
	}
	return mounts, nil
}
