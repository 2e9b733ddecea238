package gitdir

import (
	"os"
	"path/filepath"
	"slices"
)

// Protected are the paths that a command may not write: those that were there, the
// repository where it is not in .git, and what git takes for one in submodules. For a
// link to something else in the project, such as .claude to .agents, it is that: the
// link itself can be replaced, which is told afterwards.
func Protected(project string, before, own []string) []string {
	if project == "" {
		return nil
	}
	paths := append(Submodules(project), own...)
	for _, name := range before {
		if target, ok := linkInside(project, name); ok {
			name = target
		}
		paths = append(paths, name)
	}
	if folder := GitFolder(project); folder != "" {
		paths = append(paths, folder)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// linkInside gives what a link at the project's top leads to, where that is below
// the project and no link is on the way. What .git leads to is no repository of the
// project's own; that and all else is refused as a mount.
func linkInside(project, name string) (target string, ok bool) {
	to, err := os.Readlink(filepath.Join(project, name))
	if err != nil || name == ".git" || !filepath.IsLocal(to) || filepath.Clean(to) == "." {
		return "", false
	}
	target = filepath.Clean(to)
	resolved, err := filepath.EvalSymlinks(filepath.Join(project, target))
	return target, err == nil && resolved == filepath.Join(project, target)
}
