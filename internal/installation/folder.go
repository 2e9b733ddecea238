package installation

import (
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/hostpath"
)

// ProjectFolder is the folder with all symbolic links resolved, once; empty where none is named.
// One that this process cannot read or enter is an error that names the folder that keeps it out.
func ProjectFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = hostpath.Readable(abs)
	}
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", config.Errorf("project %s: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", config.Errorf("project %s is not a folder", dir)
	}
	return abs, nil
}

// Work remembers that an agent works on a project, before it begins ([hostpath.Work]).
func (inst *Installation) Work(project string) error {
	return hostpath.Work(inst.Registry.Paths().State, project)
}

// LookPath finds a program that nacre starts on the host ([hostpath.LookPath]).
func LookPath(name string) (string, error) { return hostpath.LookPath(name) }
