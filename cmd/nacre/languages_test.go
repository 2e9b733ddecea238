package main_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// language is a small project with a test, and what a work does to it.
type language struct {
	base map[string]string
	// test is the file with the project's test, tests what it says, emptied what is left of it when it tests nothing.
	test, tests, emptied string
	// code is the file that it tests, wrong and honest what a work makes of it.
	code, wrong, honest string
	// more is a test file of the work's own, red and green what it says.
	more, red, green string
	// failed is how the project's test is told of, and vetoed the work's.
	failed, vetoed string
}

var languages = map[string]language{
	"go": {
		base: map[string]string{"go.mod": "module example.com/sum\n\ngo 1.21\n", "sum.go": "package sum\n\nfunc Add(a, b int) int { return a + b }\n"},
		test: "sum_test.go", tests: "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif have := Add(1, 2); have != 3 {\n\t\tt.Fatal(have)\n\t}\n}\n",
		emptied: "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {}\n",
		code:    "sum.go", wrong: "package sum\n\nfunc Add(a, b int) int { return a * b }\n", honest: "package sum\n\nfunc Add(a, b int) int { return b + a }\n",
		more: "more_test.go", red: "package sum\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) { t.Fail() }\n", green: "package sum\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {}\n",
		failed: "TestAdd failed", vetoed: "TestMore failed",
	},
	"node": {
		base: map[string]string{"package.json": `{"name":"sum","type":"module"}`, "sum.js": "export const add = (a, b) => a + b;\n"},
		test: "test/sum.test.js", tests: "import test from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../sum.js';\ntest('adds', () => assert.equal(add(1, 2), 3));\n",
		emptied: "import test from 'node:test';\ntest('adds', () => {});\n",
		code:    "sum.js", wrong: "export const add = (a, b) => a * b;\n", honest: "export const add = (a, b) => b + a;\n",
		more: "test/more.test.js", red: "import test from 'node:test';\ntest('more', () => { throw new Error() });\n", green: "import test from 'node:test';\ntest('more', () => {});\n",
		failed: "adds failed", vetoed: "more failed",
	},
	"python3": {
		base: map[string]string{"pyproject.toml": "[project]\nname = \"total\"\nversion = \"1\"\n", "total.py": "def add(a, b):\n    return a + b\n"},
		test: "tests/test_total.py", tests: "import unittest\n\nimport total\n\n\nclass Total(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(total.add(1, 2), 3)\n",
		emptied: "import unittest\n\n\nclass Total(unittest.TestCase):\n    def test_add(self):\n        pass\n",
		code:    "total.py", wrong: "def add(a, b):\n    return a * b\n", honest: "def add(a, b):\n    return b + a\n",
		more: "tests/test_more.py", red: "import unittest\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        self.fail()\n",
		green: "import unittest\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        pass\n", failed: "Total.test_add failed", vetoed: "test_more failed",
	},
	"cargo": {
		base: map[string]string{
			"Cargo.toml": "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "Cargo.lock": "version = 3\n\n[[package]]\nname = \"sum\"\nversion = \"0.1.0\"\n",
			".gitignore": "target\n", "src/lib.rs": "pub fn add(a: u64, b: u64) -> u64 {\n    a + b\n}\n",
		},
		test: "tests/it.rs", tests: "#[test]\nfn adds() {\n    assert_eq!(sum::add(1, 2), 3);\n}\n",
		emptied: "#[test]\nfn adds() {}\n",
		code:    "src/lib.rs", wrong: "pub fn add(a: u64, b: u64) -> u64 {\n    a * b\n}\n", honest: "pub fn add(a: u64, b: u64) -> u64 {\n    b + a\n}\n",
		more: "tests/more.rs", red: "#[test]\nfn more() {\n    panic!()\n}\n", green: "#[test]\nfn more() {}\n", failed: "adds", vetoed: "`--test more`",
	},
}

// M-66, F-94: in each language the project's tests decide, whatever a work makes of them. A test that it adds can
// refuse it, and what passes both lands.
func TestTestsDecideInEachLanguage(t *testing.T) {
	t.Parallel()
	for tool, l := range languages {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			if tool == "cargo" {
				needCargo(t)
			}
			testpeer.Need(t, tool)
			i := install(t)
			for path, text := range l.base {
				i.write("p/"+path, text)
			}
			i.write("p/"+l.test, l.tests)
			i.write("p/.nacre/roles/tested.toml", quality)
			i.project()
			switch tool {
			case "go":
				i.withGo()
			case "cargo":
				i.withRust()
			}
			run := func(session string, files map[string]string) result {
				return i.nacre("run", "say it", "--role", "tested", "--session", session, "--project", "p", "--recording", i.writes(files), "--check", "true")
			}
			run("emptied", map[string]string{l.code: l.wrong, l.test: l.emptied}).want(t, 1, l.failed, "not merged")
			run("red", map[string]string{l.code: l.honest, l.more: l.red}).want(t, 1, l.vetoed, "not merged")
			run("green", map[string]string{l.code: l.honest, l.more: l.green}).want(t, 0, "✓ verify quality::tests-green", "merged")
		})
	}
}
