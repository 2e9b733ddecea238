package verify

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// pythonRunner runs tests by unittest or pytest and reports each by name. It
// is read before the project's folder can be imported from.
//
//go:embed tests_python.py
var pythonRunner string

func pythonSettings() []string {
	return []string{
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONSTARTUP=", "PYTHONHASHSEED=0", "PYTEST_ADDOPTS=", "PYTEST_PLUGINS=", "NO_COLOR=1", "COVERAGE_PROCESS_START=",
	}
}

func pythonTest(t trees, p part, l layout, nonce string) (argv, env []string, err error) {
	mode := "unittest"
	if usesPytest(t.base, p) {
		mode = "pytest"
	}
	argv = []string{"python3", "-I", "-B", "-c", pythonRunner, mode, nonce}
	return append(argv, pythonFiles(l, p)...), pythonSettings(), nil
}

// pythonFiles are the test files of a layout, relative to the project.
func pythonFiles(l layout, p part) []string {
	var list []string
	for _, name := range l.names() {
		if inside(p.dir, name) && isPythonTest(name) && l.items[name].mode.IsRegular() {
			list = append(list, strings.TrimPrefix(name, strings.TrimPrefix(p.dir+"/", "./")))
		}
	}
	return list
}

var importsPytest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*(?:import|from)\s+pytest\b`) })

// usesPytest tells the runner from the base's configuration and its tests.
func usesPytest(base checkout, p part) bool {
	sections := map[string]string{"pyproject.toml": "[tool.pytest", "setup.cfg": "[tool:pytest]", "tox.ini": "[pytest]", "pytest.ini": "", ".pytest.ini": ""}
	for name, section := range sections {
		if data, err := base.read(path.Join(p.dir, name)); err == nil && strings.Contains(string(data), section) {
			return true
		}
	}
	for _, name := range base.names() {
		if !inside(p.dir, name) || borrowed(name) {
			continue
		}
		if path.Base(name) == "conftest.py" {
			return true
		}
		if data, err := base.read(name); isPythonTest(name) && err == nil && importsPytest().Match(data) {
			return true
		}
	}
	return false
}

// plantPython adds a failing test to every folder with tests.
func plantPython(t trees, p part, l layout, nonce string) []canary {
	var list []canary
	done := map[string]bool{}
	for _, name := range t.base.names() {
		dir := path.Dir(name)
		if done[dir] || !inside(p.dir, name) || !isPythonTest(name) {
			continue
		}
		done[dir] = true
		c := canary{name: fmt.Sprintf("Nacre_%s_%d", nonce, len(list)), text: fmt.Sprintf("seen %s %d", nonce, len(list))}
		file := fmt.Sprintf("test_zz_nacre_%s_%d.py", nonce, len(list))
		if strings.HasSuffix(name, "_test.py") {
			file = fmt.Sprintf("zz_nacre_%s_%d_test.py", nonce, len(list))
		}
		l.text(path.Join(dir, file),
			fmt.Sprintf("import unittest\n\n\nclass %s(unittest.TestCase):\n    def test_shown(self):\n        self.fail(%q)\n", c.name, c.text))
		list = append(list, c)
	}
	return list
}
