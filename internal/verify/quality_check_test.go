package verify_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

// strengthOf tries edits of which the verdict's strength matters.
func strengthOf(t *testing.T, handler string, base, edits files) string {
	t.Helper()
	v := verdictOf(t, handler, base, edits, nil, direct(0))
	if !v.Passed {
		t.Errorf("%s: %s\n%s", handler, v.Reason, v.Detail)
	}
	return v.Strength
}

// S-04, S-13: Go's compiler and vetter run none of the code.
func TestGoCheck(t *testing.T) {
	vetted := files{"sum.go": goSum + "func Three() error { return fmt.Errorf(\"%d\", \"x\") }\n"}
	vetted["sum.go"] = strings.Replace(vetted["sum.go"], "package sum\n", "package sum\n\nimport \"fmt\"\n", 1)
	for _, handler := range []string{"go-check-green", "no-warnings"} {
		tryAll(t, "go", handler, goBase, []trial{
			{name: "what compiles", edits: files{"sum.go": goSum + "func Three() int { return 3 }\n"}},
			{name: "what does not", edits: files{"sum.go": goSum + "func Three() int { return x }\n"}, want: "undefined: x"},
			{name: "what is vetted", edits: vetted, want: "wrong type"},
			{name: "a test that does not compile", edits: files{"more_test.go": "package sum\n\nvar x int = \"y\"\n"}, want: "cannot use"},
		})
	}
	tryAll(t, "go", "go-check-green", goBase, []trial{
		{name: "a module within, hidden from the one around it", edits: files{"deep/go.mod": "module example.com/sum/deep\n\ngo 1.21\n", "deep/deep.go": "package deep\n\nvar x int = \"y\"\n"}, want: "cannot use"},
		{name: "no module any more", edits: files{"go.mod": "-"}, want: "go.mod is gone"},
		{name: "a function renamed while another calls it", edits: files{"sum.go": "package sum\n\nfunc Plus(a, b int) int { return a + b }\n"}, want: "undefined"},
		{name: "a dependency that is not there", edits: files{"sum.go": "package sum\n\nimport _ \"example.com/nowhere\"\n"}, want: "nowhere"},
	})
	if have := strengthOf(t, "go-check-green", goBase, files{"sum.go": goSum}); have != verify.Strong {
		t.Errorf("a compiler's verdict is %q", have)
	}
}

// S-04: the roles that ship ask for the check of cargo. A repository without a Cargo project is
// held to the checks of its own languages instead, and one without code fails: there is nothing to
// check.
func TestCargoCheckWithoutCargo(t *testing.T) {
	tryAll(t, "go", "cargo-check-green", goBase, []trial{
		{name: "what compiles", edits: files{"sum.go": goSum + "func Three() int { return 3 }\n"}},
		{name: "what does not", edits: files{"sum.go": goSum + "func Three() int { return x }\n"}, want: "undefined: x"},
		{name: "a Cargo project that the work adds", edits: files{"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\n", "src/lib.rs": "fn x() -> u64 { y }\n"}, want: "the base has no project of it"},
	})
	tryAll(t, "go", "cargo-check-green", files{"README.md": "hello\n"}, []trial{
		{name: "words alone", edits: files{"README.md": "hello, world\n"}, want: "nothing to check"},
	})
}

// S-04, S-13: cargo's verdict is strong while nothing of the project runs.
func TestCargoCheck(t *testing.T) {
	unused := files{"src/lib.rs": rustLib + "fn nobody() {}\n" + rustTests}
	tryAll(t, "cargo", "cargo-check-green", rustBase, []trial{
		{name: "what compiles", edits: unused},
		{name: "what does not", edits: files{"src/lib.rs": rustLib + "fn nobody() -> u64 { x }\n"}, want: "cannot find value `x`"},
		{name: "a test that does not compile", edits: files{"tests/it.rs": "fn x() -> u64 { y }\n"}, want: "cannot find value `y`"},
		{name: "another program in the compiler's place", edits: files{".cargo/config.toml": "[build]\nrustc = \"/bin/true\"\n"}, want: ".cargo/config.toml was changed"},
		{name: "another toolchain", edits: files{"rust-toolchain.toml": "[toolchain]\npath = \"evil\"\n"}, want: "rust-toolchain.toml was changed"},
		{name: "no manifest any more", edits: files{"Cargo.toml": "-"}, want: "Cargo.toml is gone"},
	})
	tryAll(t, "cargo", "no-warnings", rustBase, []trial{
		{name: "a warning on what was touched", edits: unused, want: "nobody"},
		{name: "none", edits: files{"src/lib.rs": rustLib + "pub fn two() {}\n" + rustTests}},
	})
	tryAll(t, "cargo", "no-warnings", with(rustBase, unused), []trial{{name: "a warning that was there", edits: files{"tests/more.rs": "\n"}}})
	if have := strengthOf(t, "cargo-check-green", rustBase, unused); have != verify.Strong {
		t.Errorf("a compiler's verdict is %q", have)
	}
	if have := strengthOf(t, "cargo-check-green", rustBase, files{"build.rs": "fn main() {}\n"}); have != verify.Weak {
		t.Errorf("a verdict beside a build script is %q", have)
	}
}

// S-04, S-13: node parses, and runs nothing.
func TestNodeCheck(t *testing.T) {
	tryAll(t, "node", "node-check-green", nodeBase, []trial{
		{name: "what parses", edits: files{"sum.js": "export const x = await 1;\nprocess.exit(1);\n", "run.cjs": "#!/usr/bin/env node\nreturn require('x');\n"}},
		{name: "what does not", edits: files{"sum.js": "export const x = ;\n"}, want: "sum.js"},
		{name: "a script as a module", edits: files{"x.cjs": "export const x = 1;\n"}, want: "x.cjs"},
		{name: "code that would run while it is read", edits: files{"sum.js": "process.stdout.write = () => {}; process.exit(0);\n", "y.js": "export const x = ;\n"}, want: "y.js"},
	})
	typed := with(nodeBase, files{"tsconfig.json": "{}"})
	tryAll(t, "node", "node-check-green", typed, []trial{
		{name: "a compiler that the work brings along", edits: files{"node_modules/typescript/bin/tsc": "process.exit(0)\n"}, want: "tsc is not"},
	})
	if have := strengthOf(t, "node-check-green", nodeBase, files{"sum.js": "export const x = 1;\n"}); have != verify.Strong {
		t.Errorf("a parser's verdict is %q", have)
	}
}

// S-04, S-13: Python compiles, and imports nothing.
func TestPythonCheck(t *testing.T) {
	tryAll(t, "python3", "python-check-green", pythonBase, []trial{
		{name: "what compiles", edits: files{"total.py": "import os\nos._exit(1)\n", "re.py": "raise SystemExit(0)\n", "sitecustomize.py": "import os\nos._exit(0)\n"}},
		{name: "what does not", edits: files{"total.py": "def\n"}, want: "total.py: SyntaxError"},
		{name: "modules in the place of the compiler's own", edits: files{"tokenize.py": "raise SystemExit(0)\n", "warnings.py": "raise SystemExit(0)\n", "total.py": "def\n"}, want: "SyntaxError"},
		{name: "a file that is not text", edits: files{"total.py": "x = '\x00'\n"}, want: "total.py"},
		{name: "a file nested too deep", edits: files{"total.py": "x = " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + "\n"}, want: "total.py"},
		{name: "a warning is none for this one", edits: files{"total.py": "x = '\\d'\n"}},
	})
	tryAll(t, "python3", "no-warnings", pythonBase, []trial{
		{name: "a warning on what was touched", edits: files{"total.py": "x = '\\d'\n"}, want: "invalid escape"},
		{name: "none", edits: files{"total.py": "x = 1\n"}},
	})
	tryAll(t, "python3", "python-check-green", with(pythonBase, files{"mypy.ini": "[mypy]\n"}), []trial{
		{name: "a checker that is not installed", edits: files{"total.py": "x = 1\n"}, want: "mypy is not"},
	})
	if have := strengthOf(t, "python-check-green", pythonBase, files{"total.py": "x = 1\n"}); have != verify.Strong {
		t.Errorf("a compiler's verdict is %q", have)
	}
}

// S-14: a program that is not in the sandbox is a failure that names it.
func TestMissingToolchain(t *testing.T) {
	for handler, c := range map[string]struct {
		base files
		tool string
	}{
		"go-check-green": {goBase, "go"}, "cargo-check-green": {rustBase, "cargo"}, "node-check-green": {nodeBase, "node"}, "python-check-green": {pythonBase, "python3"},
		"tests-green": {rustBase, "cargo"}, "no-warnings": {pythonBase, "python3"},
	} {
		t.Run(handler, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			v := verdictOf(t, handler, c.base, files{"README.md": "x"}, nil, direct(0))
			if v.Passed || !strings.Contains(v.Reason+v.Detail, c.tool+" is not installed") {
				t.Errorf("%+v", v)
			}
		})
	}
}
