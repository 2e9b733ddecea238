package repo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxConfig is the largest configuration that is read, in bytes.
	maxConfig = 1 << 20
	// maxIncludes is how many configurations are read, the included ones with them.
	maxIncludes = 16
	// maxObeyed is how many paths are taken from them.
	maxObeyed = 1000
)

// reasonConfigured is for files of any name that git was told of.
const reasonConfigured = "git's configuration names it: git runs or obeys it"

// obeyed are the paths below the top that git's own configuration of a project
// names, such as a folder of hooks, a filter or an included file: they are
// the user's to name, and an agent's to write. git is not run for it. What a
// user's global configuration names is not known here.
func (p place) obeyed() []string {
	r := &configReader{top: p.top, left: maxIncludes}
	for _, file := range []string{filepath.Join(p.commonDir, "config"), filepath.Join(p.gitDir, "config.worktree")} {
		r.read(file)
	}
	return r.paths
}

// configReader collects what configurations name.
type configReader struct {
	top   string
	left  int
	paths []string
}

// read takes what cannot be read as naming nothing: git complains of it.
func (r *configReader) read(file string) {
	if r.left--; r.left < 0 {
		return
	}
	data, err := readSmall(file, maxConfig)
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
	case slices.Contains([]string{"remote", "branch", "user", "submodule", "url", "color"}, section):
	case strings.HasPrefix(section, "include") && key == "path":
		included := strings.Trim(value, `"`)
		if !filepath.IsAbs(included) {
			included = filepath.Join(filepath.Dir(file), included)
		}
		r.note(included)
		r.read(included)
	case section == "core" && key == "hookspath":
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
func (r *configReader) below(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(r.top, name)
}

func (r *configReader) note(file string) {
	rel, err := filepath.Rel(r.top, file)
	if err != nil || rel == "." || rel == ".git" || len(r.paths) >= maxObeyed || !filepath.IsLocal(rel) || strings.HasPrefix(rel, ".git/") {
		return
	}
	r.paths = append(r.paths, filepath.ToSlash(rel))
}
