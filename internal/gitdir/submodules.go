package gitdir

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxModulesFile is the largest .gitmodules that is read, in bytes.
	maxModulesFile = 1 << 20
	// maxSubmodules is how many submodules are named.
	maxSubmodules = 128
	// maxPointer is the longest file that only names a folder, in bytes.
	maxPointer = 8192
)

// Submodules names the .git of each submodule that is checked out in the folder
// top, and of theirs, relative to it. It goes by what .gitmodules says and
// trusts nothing that is there: what no path of plain folders leads to is left
// out, and what is beyond the limits.
func Submodules(top string) []string {
	var found []string
	seen := map[string]bool{"": true}
	for around := []string{""}; len(around) > 0; around = around[1:] {
		for _, below := range submodulePaths(filepath.Join(top, around[0], ".gitmodules")) {
			module := path.Join(around[0], below)
			if seen[module] || !plainFolders(top, module) {
				continue
			}
			seen[module] = true
			info, err := os.Lstat(filepath.Join(top, module, ".git"))
			if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
				continue
			}
			if found = append(found, path.Join(module, ".git")); len(found) == maxSubmodules {
				return found
			}
			around = append(around, module)
		}
	}
	return found
}

// submodulePaths are the paths in a .gitmodules. One that git would write in
// another way than plainly is left out.
func submodulePaths(file string) []string {
	text, err := disk.Read(file, maxModulesFile)
	if err != nil {
		return nil
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if strings.EqualFold(strings.TrimSpace(key), "path") && filepath.IsLocal(value) && path.Clean(value) == value && value != "." {
			paths = append(paths, value)
		}
	}
	return paths
}

// plainFolders reports whether every part of the way to a folder is one, and no link.
func plainFolders(top, folder string) bool {
	for at := folder; at != "."; at = path.Dir(at) {
		if info, err := os.Lstat(filepath.Join(top, at)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// GitFolder names the folder below a project's top that its .git file says to be the
// repository, or "". It trusts nothing that is there.
func GitFolder(top string) string {
	says := pointer(filepath.Join(top, ".git"))
	if says == "" {
		return ""
	}
	named, err := filepath.EvalSymlinks(against(top, says))
	if err != nil {
		return ""
	}
	below, err := filepath.Rel(top, named)
	if err != nil || below == "." || !filepath.IsLocal(below) {
		return ""
	}
	return below
}

// pointer is the folder that a .git file names, as it is written there, or "".
func pointer(file string) string {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := disk.Read(file, maxPointer)
	named, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if err != nil || !ok || strings.ContainsAny(named, "\x00\n") {
		return ""
	}
	return named
}
