package program

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/hostpath"
)

// TrustedPath is PATH without the folders that an agent could fill. They are those below the
// project that args name, else below the folder that nacre is called in, and those below any folder
// that was an agent's project before. An environment that was activated there, or
// node_modules/.bin, would name the git, go or claude that nacre itself starts on the host (U-01,
// U-04).
func TrustedPath(getenv func(string) string, args []string) string {
	home := getenv("HOME")
	filled := projects(args, home)
	return strings.Join(slices.DeleteFunc(filepath.SplitList(getenv("PATH")), func(dir string) bool {
		if !filepath.IsAbs(dir) {
			return true
		}
		return hostpath.Filled(getenv, dir) || slices.ContainsFunc(filled, func(project string) bool {
			return hostpath.Contains(project, filepath.Clean(dir)) || hostpath.Contains(project, hostpath.Resolved(dir))
		})
	}), string(filepath.ListSeparator))
}

// projects are the folders that args name, each with the repository that it is in. What
// holds a person's home is none: the person's own programs lie there.
func projects(args []string, home string) []string {
	var named []string
	for i, arg := range args {
		value, given := strings.CutPrefix(arg, "--project=")
		if arg == "--project" && i+1 < len(args) {
			value, given = args[i+1], true
		}
		if given {
			named = append(named, value)
		}
		if arg == "--" {
			break
		}
	}
	if len(named) == 0 {
		named = []string{"."}
	}
	var found []string
	for _, name := range named {
		project, err := filepath.Abs(name)
		if err != nil {
			continue
		}
		found = append(found, hostpath.Repositories(hostpath.Resolved(project))...)
	}
	return slices.DeleteFunc(found, func(project string) bool { return hostpath.HoldsHome(home, project) })
}
