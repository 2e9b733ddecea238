package verify

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// The languages whose tests and builds are judged.
const (
	golang = "go"
	rust   = "rust"
	node   = "node"
	python = "python"
)

// part is a project of one language: the folder of its manifest.
type part struct{ language, dir string }

var errNoLanguage = errors.New("no go.mod, Cargo.toml, package.json or Python project is in the base: name `language` in the task's [verification]: go, rust, node or python")

// parts are the projects that the work touches, told from the base's files
// (S-04). Where the task names a language, it is that one only.
func parts(base checkout, named string, changes []nacre.Change) ([]part, error) {
	all := manifests(base)
	if named != "" {
		return ofLanguage(base, all, named)
	}
	if len(all) == 0 {
		return bySource(base)
	}
	touched := touchedLanguages(changes)
	var list []part
	for _, p := range all {
		if touched == nil || touched[p.language] {
			list = append(list, p)
		}
	}
	if len(list) == 0 { // what was touched is no project of the base
		return all, nil
	}
	return list, nil
}

func ofLanguage(base checkout, all []part, named string) ([]part, error) {
	if !slices.Contains([]string{golang, rust, node, python}, named) {
		return nil, fmt.Errorf("language %q is not known: write go, rust, node or python", clip(named))
	}
	list := slices.DeleteFunc(slices.Clone(all), func(p part) bool { return p.language != named })
	if len(list) > 0 {
		return list, nil
	}
	if (named == node || named == python) && hasSource(base)[named] {
		return []part{{named, "."}}, nil
	}
	return nil, fmt.Errorf("the task names the language %s, and the base has no project of it", named)
}

// manifests finds every project. A Go module is one each; of the others the
// outermost folder counts, which holds its workspace.
func manifests(base checkout) []part {
	seen := map[part]bool{}
	var list []part
	names := base.names()
	slices.SortFunc(names, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	for _, name := range names {
		language := manifestOf(path.Base(name))
		p := part{language, path.Dir(name)}
		if language == "" || !base.has(name) || borrowed(name) || seen[p] || language != golang && within(list, p) {
			continue
		}
		seen[p] = true
		list = append(list, p)
	}
	list = slices.DeleteFunc(list, func(p part) bool { return p.language == golang && !hasGo(base, p.dir, list) })
	slices.SortFunc(list, func(a, b part) int { return strings.Compare(a.language+"\x00"+a.dir, b.language+"\x00"+b.dir) })
	return list
}

func manifestOf(name string) string {
	switch name {
	case "go.mod":
		return golang
	case "Cargo.toml":
		return rust
	case "package.json":
		return node
	case "pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "requirements.txt", "Pipfile":
		return python
	}
	return ""
}

// borrowed says that a path lies in a folder of other people's code or of data.
func borrowed(name string) bool {
	for _, part := range strings.Split(path.Dir(name), "/") {
		switch {
		case part == "vendor", part == "node_modules", part == "testdata", part == "target", part == ".venv", part == "venv":
			return true
		case len(part) > 1 && part[0] == '.':
			return true
		}
	}
	return false
}

func within(list []part, p part) bool {
	return slices.ContainsFunc(list, func(outer part) bool { return outer.language == p.language && inside(outer.dir, p.dir) })
}

// inside says that a path is dir or lies below it.
func inside(dir, name string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// hasGo says that a module has a source file of its own. One that only lists
// tools has nothing to build, and its modules need not be in the cache.
func hasGo(base checkout, dir string, all []part) bool {
	for name := range base.files {
		if path.Ext(name) == ".go" && !borrowed(name) && moduleOf(all, name) == dir {
			return true
		}
	}
	return false
}

// moduleOf is the innermost Go module around a path.
func moduleOf(all []part, name string) string {
	best := ""
	for _, p := range all {
		if p.language == golang && inside(p.dir, name) && (best == "" || len(p.dir) > len(best) || best == ".") {
			best = p.dir
		}
	}
	return best
}

// hasSource are the languages without a need for a manifest that a base has files of.
func hasSource(base checkout) map[string]bool {
	found := map[string]bool{}
	for name := range base.files {
		if language := languageOf(name); (language == node || language == python) && !borrowed(name) {
			found[language] = true
		}
	}
	return found
}

// bySource tells the language of a base without any manifest.
func bySource(base checkout) ([]part, error) {
	found := hasSource(base)
	switch {
	case len(found) > 1:
		return nil, errors.New("the base holds Node and Python files and no manifest of either: name `language` in the task's [verification]")
	case found[node]:
		return []part{{node, "."}}, nil
	case found[python]:
		return []part{{python, "."}}, nil
	}
	return nil, errNoLanguage
}

// touchedLanguages are those of the changed files. It is nil, which stands for
// all, where a file may belong to any: the data that a test reads has no language.
func touchedLanguages(changes []nacre.Change) map[string]bool {
	if len(changes) == 0 {
		return nil
	}
	touched := map[string]bool{}
	for _, c := range changes {
		language := languageOf(c.Path)
		if language == "" {
			return nil
		}
		touched[language] = true
	}
	return touched
}

func languageOf(name string) string {
	if language := manifestOf(path.Base(name)); language != "" {
		return language
	}
	switch path.Ext(name) {
	case ".go":
		return golang
	case ".rs":
		return rust
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return node
	case ".py", ".pyi":
		return python
	}
	return ""
}
