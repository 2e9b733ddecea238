package verify_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// npmTesters names a folder with one folder for each of jest, vitest and
// typescript, into which npm installed it.
const npmTesters = "NACRE_NPM_TESTERS"

// modules are what npm installed for a package, as a base has them that brings
// them along: what a program reads, and none of what people read.
func modules(t *testing.T, name string) files {
	t.Helper()
	folder := os.Getenv(npmTesters)
	if folder == "" {
		testpeer.Missing(t, npmTesters, npmTesters+" does not name a folder with npm's jest, vitest and typescript")
	}
	all, root := files{}, filepath.Join(folder, name)
	programs := map[string]string{"jest": "jest", "vitest": "vitest", "typescript": "tsc"}
	testpeer.Able(t, "node", filepath.Join(root, "node_modules", ".bin", programs[name]), "--version")
	err := filepath.WalkDir(filepath.Join(root, "node_modules"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		switch path.Ext(d.Name()) {
		case ".md", ".map", ".mts", ".cts":
			return nil
		case ".ts":
			if name != "typescript" { // its own library is of them
				return nil
			}
		}
		data, err := os.ReadFile(file)
		all[rel] = string(data)
		if info, statErr := d.Info(); statErr == nil && info.Mode()&0o100 != 0 {
			all[rel] = "exec:" + all[rel]
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d files, %v", root, len(all), err)
	}
	return all
}

// S-13: jest and vitest themselves, as a repository brings them along.
func TestPeoplesNodeRunners(t *testing.T) {
	runners := map[string]files{
		"jest": with(modules(t, "jest"), files{
			"package.json": `{"name": "sum", "scripts": {"test": "jest"}}`,
			"sum.js":       "exports.add = (a, b) => a + b;\n",
			"sum.test.js":  "const { add } = require('./sum');\ndescribe('sums', () => {\n  test('adds', () => { expect(add(1, 2)).toBe(3); });\n  test.skip('is slow', () => {});\n});\ntest('adds again', () => { expect(add(2, 2)).toBe(4); });\n",
		}),
		"vitest": with(modules(t, "vitest"), files{
			"package.json": `{"name": "sum", "scripts": {"test": "vitest run"}}`,
			"sum.js":       "exports.add = (a, b) => a + b;\n",
			"sum.test.mjs": "import { describe, expect, test } from 'vitest';\nimport { add } from './sum.js';\ndescribe('sums', () => {\n  test('adds', () => { expect(add(1, 2)).toBe(3); });\n  test.skip('is slow', () => {});\n});\ntest('adds again', () => { expect(add(2, 2)).toBe(4); });\n",
		}),
	}
	for name, base := range runners {
		t.Run(name, func(t *testing.T) {
			test := "sum.test.js"
			if name == "vitest" {
				test = "sum.test.mjs"
			}
			tryAll(t, "node", "tests-green", base, []trial{
				{name: "a change that breaks nothing", edits: files{"sum.js": "exports.add = (a, b) => b + a;\n"}},
				{name: "a test that is emptied, and code that fails it", edits: files{"sum.js": "exports.add = () => 0;\n", test: "\n"}, want: "sums > adds failed"},
				{name: "it ends well before any test", edits: files{"sum.js": "exports.add = () => 0;\nprocess.exit(0);\n"}, want: "node tests"},
			})
		})
	}
}

// S-04, S-13: the compiler of TypeScript itself, as a repository brings it along.
func TestPeoplesTypeScript(t *testing.T) {
	base := with(modules(t, "typescript"), files{
		"package.json":  `{"name": "sum", "type": "module"}`,
		"tsconfig.json": `{"compilerOptions": {"strict": true, "module": "nodenext"}, "include": ["*.ts"]}`,
		"sum.ts":        "export const add = (a: number, b: number): number => a + b;\n",
	})
	tryAll(t, "node", "node-check-green", base, []trial{
		{name: "a change that is well typed", edits: files{"two.ts": "import { add } from './sum.js';\nexport const two: number = add(1, 1);\n"}},
		{name: "a change that is not", edits: files{"two.ts": "import { add } from './sum.js';\nexport const two: string = add(1, 1);\n"}, want: "TS2322"},
		{name: "a part of the compiler that lies beside it", edits: files{"node_modules/@typescript/typescript-linux-x64/lib/tsc": "exec:#!/bin/sh\nexit 0\n", "two.ts": "export const two: string = 2;\n"}, want: "part of the compiler"},
		{name: "a compiler that was changed", edits: files{"node_modules/typescript/bin/tsc": "exec:#!/bin/sh\nexit 0\n"}, want: "part of the compiler"},
	})
}

// pytestPython names a python3 that has pytest.
const pytestPython = "NACRE_PYTEST"

// S-13: pytest itself, as the system's python3 has it.
func TestPeoplesPytest(t *testing.T) {
	python := os.Getenv(pytestPython)
	if python == "" {
		testpeer.Missing(t, "pytest", pytestPython+" does not name a python3 that has pytest")
	}
	t.Setenv("PATH", filepath.Dir(python)+string(os.PathListSeparator)+os.Getenv("PATH"))
	base := files{
		"pytest.ini":        "[pytest]\ntestpaths = tests\n",
		"total.py":          "def add(a, b):\n    return a + b\n",
		"tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n",
		"tests/test_total.py": `import pytest

import total


def test_add(two):
    assert total.add(two, 1) == 3


@pytest.mark.parametrize("n", [1, 2])
def test_many(n):
    assert total.add(n, 0) == n


@pytest.mark.skip(reason="slow")
def test_slow():
    pass
`,
	}
	wrong := "def add(a, b):\n    return 0\n"
	tryAll(t, "python3", "tests-green", base, []trial{
		{name: "a change that breaks nothing", edits: files{"total.py": "def add(a, b):\n    return b + a\n"}},
		{name: "a change that breaks a test", edits: files{"total.py": wrong}, want: "test_add failed"},
		{name: "a case of a test", edits: files{"total.py": "def add(a, b):\n    return 3 if a == 2 else a + b\n"}, want: "test_many[2] failed"},
		{name: "it ends well before any test", edits: files{"total.py": "import os\nos._exit(0)\n"}, want: "python tests"},
		{name: "fixtures and a configuration that leave the tests out", edits: files{
			"total.py": wrong, "pytest.ini": "[pytest]\naddopts = --collect-only\n", "tests/conftest.py": "collect_ignore = ['test_total.py']\n", "conftest.py": "collect_ignore_glob = ['*']\n",
		}, want: "test_add failed"},
		{name: "a plugin of its own", edits: files{"total.py": wrong, "pytest.py": "def main(*a, **k):\n    return 0\n"}, want: "python tests"},
		{name: "it hangs", edits: files{"total.py": "while True:\n    pass\n"}, want: "did not end", limit: 20 * time.Second},
	})
}
