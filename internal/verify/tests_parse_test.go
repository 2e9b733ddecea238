package verify_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

const libtest = `   Compiling sum v0.1.0 (/x)
     Running unittests src/lib.rs (target/debug/deps/sum-28a01a7770d7ff1d)

running 3 tests
test tests::a ... ok
test tests::b ... ignored, slow
test tests::c - should panic ... FAILED

failures:

---- tests::c - should panic stdout ----
note: test did not panic as expected

failures:
    tests::c

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.17s

     Running tests/it.rs (target/debug/deps/it-7608d861dbef0eaf)

running 1 test
test a ... 
noise
ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests sum

running 2 tests
test src/lib.rs - two (line 15) ... ok
test src/lib.rs - two (line 25) ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

`

const jest = `{"numFailedTests":1,"success":false,"testResults":[{"name":"/tmp/verify-1/a.test.js","status":"failed","assertionResults":[{"ancestorTitles":["s"],"title":"x","status":"passed"},{"ancestorTitles":[],"title":"y","status":"failed","failureMessages":["no"]},{"ancestorTitles":[],"title":"z","status":"pending"},{"ancestorTitles":[],"title":"z","status":"todo"}]}]}` + "\n"

// S-13: each runner's report, read by name.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		name, language, out, odd string
		want                     map[string]string
	}{
		{"libtest", "rust", libtest, "", map[string]string{
			"src/lib.rs (sum)::tests::a": "passed", "src/lib.rs (sum)::tests::b": "was skipped", "src/lib.rs (sum)::tests::c": "failed", "tests/it.rs (it)::a": "passed",
			"Doc-tests sum::src/lib.rs - two": "passed", "Doc-tests sum::src/lib.rs - two (2)": "passed",
		}},
		{"libtest without its end", "rust", libtest[:strings.Index(libtest, "test tests::c")], "did not report how they ended", nil},
		{"libtest that counts another sum", "rust", strings.Replace(libtest, "running 1 test", "running 2 tests", 1), "its lines are others", nil},
		{"libtest with a line more", "rust", strings.Replace(libtest, "test tests::a ... ok", "test tests::a ... ok\ntest tests::d ... ok", 1), "its lines say otherwise", nil},
		{"libtest with a line twice", "rust", strings.Replace(libtest, "test tests::a ... ok", "test tests::a ... ok\ntest tests::a ... ok", 1), "reported twice", nil},
		{"libtest that calls a failure ok", "rust", strings.Replace(libtest, "result: FAILED", "result: ok", 1), "its lines say otherwise", nil},
		{"jest", "node", "noise\n" + jest, "", map[string]string{"a.test.js > s > x": "passed", "a.test.js > y": "failed", "a.test.js > z": "was skipped", "a.test.js > z (2)": "was skipped"}},
		{"jest twice", "node", jest + jest, "two reports", nil},
		{"jest that counts no failure", "node", strings.Replace(jest, `"success":false`, `"success":true`, 1), "counts", nil},
		{"node", "node", "x\nN {\"kind\":\"start\",\"name\":\"s\",\"file\":\"a.js\"}\nN {\"kind\":\"start\",\"name\":\"x\",\"file\":\"a.js\",\"depth\":1}\nN {\"kind\":\"end\",\"name\":\"x\",\"file\":\"a.js\",\"depth\":1,\"status\":\"passed\"}\nN {\"kind\":\"end\",\"name\":\"s\",\"file\":\"a.js\",\"status\":\"failed\"}\n", "", map[string]string{"a.js > s > x": "passed", "a.js > s": "failed"}},
		{"node, nested without end", "node", "N {\"kind\":\"end\",\"name\":\"x\",\"depth\":1000000}\n", "nested", nil},
		{"node, half a line", "node", "N {\"kind\":\n", "a line of the report is none", nil},
		{"python", "python", "ok\nM {\"name\":\"x\"}\nN {\"name\":\"a\",\"status\":\"passed\"}\nN {\"name\":\"b\",\"status\":\"\"}\n", "", map[string]string{"a": "passed", "b": "failed"}},
		{"python, twice", "python", "N {\"name\":\"a\",\"status\":\"passed\"}\nN {\"name\":\"a\",\"status\":\"passed\"}\n", "reported twice", nil},
		{"go that fails in a package that passed", "go", `{"Action":"fail","Package":"p","Test":"T"}` + "\n" + `{"Action":"pass","Package":"p"}`, "reported as passed", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, odd := verify.ReportOf(c.language, verify.Output{Stdout: []byte(c.out)}, "N")
			if said := strings.Join(odd, "\n"); (c.odd == "") != (said == "") || !strings.Contains(said, c.odd) {
				t.Errorf("odd: have %q, want %q", said, c.odd)
			}
			if c.want != nil && !maps.Equal(have, c.want) {
				t.Errorf("have %v, want %v", have, c.want)
			}
		})
	}
}

// S-13: inline tests are the base's, whatever the code around them holds.
func TestSplice(t *testing.T) {
	const tests = "#[cfg(test)]\n#[allow(dead_code)] // why\npub(crate) mod tests {\n    const S: &str = r#\"}\"#; /* } /* } */ */ const C: char = '}'; // }\n    fn f<'a>(x: &'a str) -> &'a str { x }\n    const E: char = '\\'';\n    #[test]\n    fn a() { assert!(true, \"}\\\"\"); }\n}"
	for _, c := range []struct{ name, was, is, want string }{
		{"in its place", "fn x() {}\n" + tests + "\nfn y() {}\n", "fn z() {}\n#[cfg(test)]\nmod tests { }\nfn y() {}\n", "fn z() {}\n" + tests + "\nfn y() {}\n"},
		{"added where it is gone", tests, "fn z() {}\n", "fn z() {}\n\n" + tests + "\n"},
		{"taken away where it is new", "fn x() {}\n", "fn x() {}\n" + tests + "\n", "fn x() {}\n\n"},
		{"of another condition", "#[cfg(all(test, feature = \"x\"))]\nmod t { 1 }", "#[cfg(all(test, feature = \"x\"))]\nmod t { 2 }", "#[cfg(all(test, feature = \"x\"))]\nmod t { 1 }"},
		{"not of a test", "#[cfg(not(test))]\nmod t { 1 }", "#[cfg(not(test))]\nmod t { 2 }", "#[cfg(not(test))]\nmod t { 2 }"},
		{"in a string or a comment", "fn x() {}", "const X: &str = \"#[cfg(test)] mod t { }\"; // #[cfg(test)] mod t { }\n", "const X: &str = \"#[cfg(test)] mod t { }\"; // #[cfg(test)] mod t { }\n"},
	} {
		if have := string(verify.Splice([]byte(c.was), []byte(c.is))); have != c.want {
			t.Errorf("%s: have\n%s\nwant\n%s", c.name, have, c.want)
		}
	}
}

// S-13: what is taken from the base.
func TestDeciding(t *testing.T) {
	for language, lists := range map[string][2]string{
		"go":     {"a_test.go x/testdata/y.json go.mod go.sum go.work vendor/x/y.go", "a.go test.go x/test/y.go README.md"},
		"rust":   {"tests/a.rs src/tests.rs src/a_test.rs Cargo.toml Cargo.lock .cargo/config.toml rust-toolchain x/snapshots/a.snap vendor/x/lib.rs", "src/lib.rs build.rs"},
		"node":   {"a.test.js a.spec.ts test/x.json test-a.mjs __tests__/a.js __mocks__/fs.js package.json jest.config.ts vitest.workspace.ts .npmrc node_modules/.bin/jest tsconfig.base.json", "src/a.js latest.js contest.ts"},
		"python": {"test_a.py a_test.py tests/data.json conftest.py x/conftest.py pytest.ini pyproject.toml tox.ini sitecustomize.py", "a.py contest.py latest.py"},
	} {
		for i, list := range lists {
			for _, name := range strings.Fields(list) {
				if have := verify.Decides(language, name); have != (i == 0) {
					t.Errorf("%s: %s: have %v", language, name, have)
				}
			}
		}
	}
}

// S-04, S-13: with allow-dep-bump, dependencies may change and nothing beside them.
func TestManifestsBesideDependencies(t *testing.T) {
	for _, c := range []struct {
		name, was, is string
		want          bool
	}{
		{"go.mod", "module x\n\nrequire a v1\n", "module x // y\n\nrequire (\n\ta v2\n\tb v1\n)\n", true},
		{"go.mod", "module x\n", "module x\nreplace a => ./a\n", false},
		{"go.mod", "module x\n", "module x\nreplace (\n\ta => ./a\n)\n", false},
		{"go.mod", "module x\n", "module y\n", false},
		{"Cargo.toml", "[package]\nname = \"x\"\n", "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\n[target.x.dev-dependencies]\n", false},
		{"Cargo.toml", "[package]\nname = \"x\"\n[dependencies]\n", "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\n", true},
		{"Cargo.toml", "[package]\nname = \"x\"\n", "[package]\nname = \"x\"\n[lib]\ntest = false\n", false},
		{"Cargo.toml", "[package]\n", "[package", false},
		{"package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"jest"},"devDependencies":{"a":"1"}}`, true},
		{"package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"true"}}`, false},
		{"package-lock.json", `{}`, `{"a":1}`, true},
		{"setup.py", "a", "b", false},
	} {
		if have := verify.SameButDependencies(c.name, c.was, c.is); have != c.want {
			t.Errorf("%s: %q and %q: have %v", c.name, c.was, c.is, have)
		}
	}
}

// S-13: no report makes a reader crash, and none holds more tests than lines.
func FuzzReports(f *testing.F) {
	f.Add([]byte(libtest))
	f.Add([]byte(jest))
	f.Add([]byte(goLines("TestA=pass", "TestB")))
	f.Add([]byte("N {\"kind\":\"end\",\"name\":\"x\",\"depth\":3}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, language := range []string{"go", "rust", "node", "python"} {
			tests, _ := verify.ReportOf(language, verify.Output{Stdout: data}, "N")
			if most := bytes.Count(data, []byte("\n")) + 1; language != "node" && len(tests) > most {
				t.Errorf("%s: %d tests in %d lines", language, len(tests), most)
			}
		}
	})
}

// S-13: splicing is the same once more, and brings along what the base has.
func FuzzSplice(f *testing.F) {
	f.Add([]byte("#[cfg(test)]\nmod tests { r#\"}\"# }"), []byte("fn a() {} '\\'' \"\\\""))
	f.Add([]byte("/* /* */ */ #[cfg(test)] mod a {"), []byte("#[cfg(test)] mod a {} #[cfg(test)] mod a {}"))
	f.Fuzz(func(t *testing.T, was, is []byte) {
		if len(was) == 0 {
			return
		}
		if same := verify.Splice(was, was); !bytes.Equal(same, was) && bytes.Count(was, []byte("cfg")) < 2 {
			t.Errorf("a file spliced with itself is %q, was %q", same, was)
		}
		_ = verify.Splice(was, is)
	})
}
