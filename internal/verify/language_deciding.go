package verify

import (
	"path"
	"slices"
	"strings"
)

// class says whether the base's version of a file decides.
type class uint8

const (
	// code is the work itself.
	code class = iota
	// testFile is a test, and what tests are made of: one that the base does not
	// have does not decide.
	testFile
	// settings is what says how a runner runs.
	settings
	// manifest is settings that name dependencies too.
	declaring
)

// classOf sorts a path, relative to its project, for one language. The rules are wide. What is
// taken from the base without need costs a refusal that a person can look at, and what is not taken
// can turn a test off.
func classOf(language, name string) class {
	switch language {
	case golang:
		return classOfGo(name)
	case rust:
		return classOfRust(name)
	case node:
		return classOfNode(name)
	default:
		return classOfPython(name)
	}
}

func classOfGo(name string) class {
	switch base := path.Base(name); {
	case strings.HasSuffix(base, "_test.go") || below(name, "testdata"):
		return testFile
	case base == "go.mod", base == "go.sum", base == "go.work", base == "go.work.sum", below(name, "vendor"):
		return declaring
	}
	return code
}

func classOfRust(name string) class {
	base := path.Base(name)
	stem := strings.TrimSuffix(base, ".rs")
	switch {
	case base == "Cargo.toml", base == "Cargo.lock", below(name, "vendor"):
		return declaring
	case below(name, ".cargo"), strings.HasPrefix(base, "rust-toolchain"):
		return settings
	case below(name, "tests"), below(name, "testdata"), below(name, "snapshots"), path.Ext(base) == ".snap":
		return testFile
	case stem != base && (stem == "tests" || stem == "test" || strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_tests")):
		return testFile
	}
	return code
}

var nodeSettings = []string{
	"jest.", "vitest.", "vite.config.", "babel.config.", ".babelrc", "tsconfig", "jsconfig", ".npmrc", ".swcrc", ".mocharc", ".pnp.",
	".yarnrc", ".nycrc", ".c8rc", "setuptests.", "setup-tests.", ".taprc", ".node-version", ".nvmrc", ".env",
}

func classOfNode(name string) class {
	base := strings.ToLower(path.Base(name))
	switch {
	case base == "package.json", base == "package-lock.json", base == "npm-shrinkwrap.json", base == "yarn.lock", base == "pnpm-lock.yaml":
		return declaring
	case below(name, "node_modules"), slices.ContainsFunc(nodeSettings, func(prefix string) bool { return strings.HasPrefix(base, prefix) }):
		return settings
	case isNodeTest(name), below(name, "test"), below(name, "tests"), below(name, "__tests__"), below(name, "__mocks__"),
		below(name, "__snapshots__"), below(name, "__fixtures__"):
		return testFile
	}
	return code
}

// isNodeTest says that a file is one that node --test, jest or vitest runs.
func isNodeTest(name string) bool {
	base := path.Base(name)
	if languageOf(name) != node || borrowed(name) || strings.HasSuffix(base, ".d.ts") || manifestOf(base) != "" {
		return false
	}
	stem := strings.TrimSuffix(base, path.Ext(base))
	for _, suffix := range []string{".test", "-test", "_test", ".spec", "-spec", "_spec"} {
		if strings.HasSuffix(stem, suffix) {
			return true
		}
	}
	return stem == "test" || strings.HasPrefix(stem, "test-") || path.Base(path.Dir(name)) == "__tests__" || below(name, "test") && !below(name, "fixtures")
}

func classOfPython(name string) class {
	switch base := path.Base(name); {
	case isPythonTest(name), base == "conftest.py", below(name, "tests"), below(name, "test"), below(name, "testdata"):
		return testFile
	case base == "pyproject.toml", base == "setup.cfg", base == "setup.py", base == "Pipfile", base == "poetry.lock", base == "uv.lock", base == "Pipfile.lock":
		return declaring
	case base == "pytest.ini", base == ".pytest.ini", base == "tox.ini", base == "noxfile.py", base == "sitecustomize.py", base == "usercustomize.py",
		base == "mypy.ini", base == ".mypy.ini", base == "pyrightconfig.json", path.Ext(base) == ".pth":
		return settings
	}
	return code
}

// isPythonTest says that a file is one that pytest and unittest load.
func isPythonTest(name string) bool {
	base := path.Base(name)
	return path.Ext(base) == ".py" && !borrowed(name) && (strings.HasPrefix(base, "test") || strings.HasSuffix(base, "_test.py"))
}

// owner is the folder that a file of settings speaks for.
func owner(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == ".cargo" || part == "node_modules" || part == "vendor" {
			return path.Join(".", strings.Join(parts[:i], "/"))
		}
	}
	return path.Dir(name)
}

// below says that a path lies in a folder of this name.
func below(name, folder string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), folder)
}

// trees are the two checkouts under judgement, listed.
type trees struct{ base, work checkout }

func readTrees(s Subject) (trees, error) {
	base, err := readCheckout(s.Base)
	if err != nil {
		return trees{}, err
	}
	work, err := readCheckout(s.Tree)
	return trees{base, work}, err
}

// deciding is the work with everything that decides taken from the base: no
// test of the work's own is in it, none of the base's is missing or changed
// (S-13). Manifests stay the base's as well, unless the task lets dependencies
// change. The second result says that nothing had to be replaced.
func (t trees) deciding(p part, dependencies bool) (layout, bool, error) {
	l, untouched := t.work.layout(), true
	for _, name := range t.work.names() {
		c := t.classOf(p, name, dependencies)
		_, based := t.base.files[name]
		if based || c == code || c != testFile && !t.base.dirs[owner(name)] {
			continue
		}
		delete(l.items, name)
		untouched = false
	}
	for _, name := range t.base.names() {
		if t.classOf(p, name, dependencies) == code {
			continue
		}
		equal, err := same(t.base, t.work, name)
		if err != nil {
			return layout{}, false, err
		}
		if !equal {
			l.put(name, t.base.item(name))
			untouched = false
		}
	}
	return l, untouched, nil
}

func (t trees) classOf(p part, name string, dependencies bool) class {
	rel := name
	if p.dir != "." {
		if !inside(p.dir, name) {
			return t.outer(p, name)
		}
		rel = strings.TrimPrefix(name, p.dir+"/")
	}
	c := classOf(p.language, rel)
	if c == declaring && dependencies {
		return code
	}
	return c
}

// outer sorts what lies above a project: its tests are none of this one's, and
// the settings there may be read from here.
func (t trees) outer(p part, name string) class {
	if c := classOf(p.language, name); c != testFile && inside(path.Dir(name), p.dir) {
		return c
	}
	return code
}
