package verify

import (
	_ "embed"
	"path"
	"strings"

	"github.com/nacre-dev/nacre"
)

// nodeSyntax parses every file that it is given and runs none of them.
//
//go:embed quality_node.mjs
var nodeSyntax string

// pythonSyntax compiles every file that it is given and runs none of them.
//
//go:embed quality_python.py
var pythonSyntax string

// nodeChecks parse every file, and type-check where the base is set up for that.
func nodeChecks(t trees, p part, _ Subject) ([]check, error) {
	files := sources(t.work, p, ".js", ".mjs", ".cjs")
	env := []string{"NODE_OPTIONS=", "NODE_PATH="}
	list := []check{{
		tool: "node", env: env, reports: true,
		argv: append([]string{"node", "--no-warnings", "--experimental-vm-modules", "--input-type=module", "--eval", nodeSyntax, "--"}, files...),
	}}
	if !t.base.has(path.Join(p.dir, "tsconfig.json")) {
		return list, nil
	}
	tsc := check{tool: "tsc", argv: []string{"tsc", "--noEmit", "--project", "."}, env: env}
	if entry, err := installed(t.base, p, "typescript/bin/tsc"); err == nil {
		tsc.tool, tsc.argv = "node", append([]string{"node", entry}, tsc.argv[1:]...)
		// Of all that is installed: a compiler loads and starts what lies beside it.
		tsc.refused, err = changedModules(t, path.Join(p.dir, path.Dir(path.Dir(path.Dir(entry)))))
		if err != nil {
			return nil, err
		}
		if wrong := t.repinned(path.Join(p.dir, entry)); wrong != "" {
			tsc.refused = wrong
		}
	}
	return append(list, tsc), nil
}

// changedModules says that a compiler which the project brings was changed.
func changedModules(t trees, dir string) (string, error) {
	for _, c := range []checkout{t.base, t.work} {
		for name := range c.files {
			if !inside(dir, name) {
				continue
			}
			if equal, err := same(t.base, t.work, name); err != nil || !equal {
				return name + " is part of the compiler, and was changed", err
			}
		}
	}
	return "", nil
}

// pythonChecks compile every file, and type-check where the base is set up for that.
func pythonChecks(t trees, p part, _ Subject) ([]check, error) {
	list := []check{pythonCompile("errors", sources(t.work, p, ".py"))}
	for name, section := range map[string]string{"mypy.ini": "", ".mypy.ini": "", "pyproject.toml": "[tool.mypy", "setup.cfg": "[mypy"} {
		data, err := t.base.read(path.Join(p.dir, name))
		if err != nil || !strings.Contains(string(data), section) {
			continue
		}
		mypy := check{tool: "mypy", argv: []string{"mypy", "--no-incremental", "."}, env: pythonSettings()}
		if strings.Contains(string(data), "plugins") {
			mypy.weak = "mypy loads plugins, which may be the project's own"
		}
		if equal, err := same(t.base, t.work, path.Join(p.dir, name)); err != nil || !equal {
			return append(list, check{refused: name + " says how mypy runs, and was changed"}), err
		}
		return append(list, mypy), nil
	}
	return list, nil
}

func pythonCompile(mode string, files []string) check {
	return check{
		tool: "python3", argv: append([]string{"python3", "-I", "-B", "-c", pythonSyntax, mode}, files...), env: pythonSettings(), reports: true,
	}
}

// sources are the files of a project with one of these endings, relative to it.
func sources(c checkout, p part, endings ...string) []string {
	var list []string
	for _, name := range c.names() {
		if !c.has(name) || !inside(p.dir, name) || borrowed(name) {
			continue
		}
		for _, ending := range endings {
			if path.Ext(name) == ending {
				list = append(list, "./"+relative(p, name))
			}
		}
	}
	return list
}

// relative is a path as it is named within a project.
func relative(p part, name string) string {
	return strings.TrimPrefix(name, strings.TrimPrefix(p.dir+"/", "./"))
}

// written are the paths that the work added or changed, relative to a project.
func written(changes []nacre.Change, p part) map[string]bool {
	list := map[string]bool{}
	for _, c := range changes {
		if inside(p.dir, c.Path) && c.Kind != "deleted" {
			list[relative(p, c.Path)] = true
		}
	}
	return list
}
