// Package gitconfig reads which files git's configuration names, without running git. What
// it cannot read names nothing.
package gitconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxConfig is the largest configuration that is read, in bytes.
	maxConfig = 1 << 20
	// maxIncludes is how many configurations are read, the included ones with them.
	maxIncludes = 16
	// maxObeyed is how many paths are taken from them.
	maxObeyed = 1000
	// maxHops is how many links are followed from one to the next.
	maxHops = 8
)

// Obeyed are the paths below the top that git's configuration names, the project's own and the
// user's, and what a link among its hooks leads to. Such are a folder of hooks, a filter or an
// included file. They are the user's to name, and an agent's to write. git is not run for it.
func Obeyed(top, commonDir, gitDir string) []string {
	home, _ := os.UserHomeDir() // without one there is no configuration in it
	r := &configReader{top: top, home: home, left: maxIncludes}
	r.read(filepath.Join(commonDir, "config"))
	r.read(filepath.Join(gitDir, "config.worktree"))
	for _, file := range Files(home) {
		if resolved, err := filepath.EvalSymlinks(file); err == nil { // people keep them elsewhere
			r.read(resolved)
		}
	}
	r.hooks(filepath.Join(commonDir, "hooks"))
	return r.paths
}

// hooks follows the links by which people let git run hooks that are among the project's files.
func (r *configReader) hooks(folder string) {
	entries, _ := os.ReadDir(folder) // where there is none, it names nothing
	for _, at := range append([]string{folder}, under(folder, entries)...) {
		for range maxHops {
			target, err := os.Readlink(at)
			if err != nil {
				break
			}
			at = from(filepath.Dir(at), target)
			r.note(at)
		}
	}
}

func under(folder string, entries []os.DirEntry) []string {
	list := make([]string, 0, len(entries))
	for _, e := range entries[:min(len(entries), maxObeyed)] {
		list = append(list, filepath.Join(folder, e.Name()))
	}
	return list
}

// Files are the files that git reads for every project.
func Files(home string) []string {
	files := []string{"/etc/gitconfig"}
	if system := os.Getenv("GIT_CONFIG_SYSTEM"); system != "" {
		files[0] = system
	}
	if global := os.Getenv("GIT_CONFIG_GLOBAL"); global != "" {
		return append(files, global)
	}
	if base := os.Getenv("XDG_CONFIG_HOME"); base != "" {
		files = append(files, filepath.Join(base, "git", "config"))
	} else if home != "" {
		files = append(files, filepath.Join(home, ".config", "git", "config"))
	}
	if home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	return files
}

// configReader collects what configurations name.
type configReader struct {
	top, home string
	left      int
	paths     []string
}

// read takes what cannot be read as naming nothing: git complains of it.
func (r *configReader) read(file string) {
	if r.left--; r.left < 0 {
		return
	}
	data, err := disk.Read(file, maxConfig)
	if err != nil {
		return
	}
	section := ""
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "["); ok {
			section, line, _ = strings.Cut(rest, "]")
			section = strings.ToLower(strings.Fields(section + " x")[0])
			line = strings.TrimSpace(line)
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(key, "#") && !strings.HasPrefix(key, ";") {
			r.setting(file, section, strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value))
		}
	}
}

// setting looks at one value. Of a command each word counts that is a file.
func (r *configReader) setting(file, section, key, value string) {
	switch {
	case slices.Contains([]string{"branch", "user", "url", "color"}, section):
	case section == "remote" && key != "uploadpack" && key != "receivepack", section == "submodule" && key != "update":
	case strings.HasPrefix(section, "include") && key == "path":
		included := from(filepath.Dir(file), r.expanded(strings.Trim(value, `"`)))
		r.note(included)
		r.read(included)
	case section == "core" && (key == "hookspath" || key == "attributesfile"):
		r.note(r.below(strings.Trim(value, `"`))) // it need not be there yet
	default:
		for _, word := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\"'`;|&()<>=!\\", c) }) {
			// A plain word is more often a branch or a setting than a file.
			if at := r.below(word); at != r.top && strings.ContainsAny(word, "/.") {
				if _, err := os.Lstat(at); err == nil {
					r.note(at)
				}
			}
		}
	}
}

// below is where git and the shells that it starts find a name.
func (r *configReader) below(name string) string { return from(r.top, r.expanded(name)) }

// expanded has the home of the user in place of ~.
func (r *configReader) expanded(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && r.home != "" {
		return filepath.Join(r.home, rest)
	}
	return name
}

func from(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// note keeps a path, and the same with the links above it followed.
func (r *configReader) note(file string) {
	r.keep(file)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil && dir != filepath.Dir(file) {
		r.keep(filepath.Join(dir, filepath.Base(file)))
	}
}

func (r *configReader) keep(file string) {
	rel, err := filepath.Rel(r.top, file)
	if err != nil || rel == "." || rel == ".git" || len(r.paths) >= maxObeyed || !filepath.IsLocal(rel) || strings.HasPrefix(rel, ".git/") {
		return
	}
	r.paths = append(r.paths, filepath.ToSlash(rel))
}
