package verify_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

const rustLib = `//! Sums.

/// Adds.
///
/// ` + "```" + `
/// assert_eq!(sum::add(1, 2), 3);
/// ` + "```" + `
pub fn add(a: u64, b: u64) -> u64 {
    a + b
}
`

const rustTests = `
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(2, 2), 4, "a brace in a string {{");
    }

    #[test]
    #[ignore]
    fn slow() {}
}
`

var rustBase = files{
	"Cargo.toml":  "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
	"Cargo.lock":  "version = 3\n\n[[package]]\nname = \"sum\"\nversion = \"0.1.0\"\n",
	"src/lib.rs":  rustLib + rustTests,
	"tests/it.rs": "#[test]\nfn works() {\n    assert_eq!(sum::add(1, 2), 3);\n}\n",
}

// S-13: what the base's tests say of the work, by name, inline ones included.
func TestRustTests(t *testing.T) {
	wrong := "pub fn add(a: u64, b: u64) -> u64 {\n    a * b * 0\n}\n"
	tryAll(t, "cargo", "tests-green", rustBase, []trial{
		{name: "a change that breaks nothing", edits: files{"src/lib.rs": rustLib + "pub fn two() -> u64 {\n    2\n}\n" + rustTests}},
		{name: "a change that breaks a test", edits: files{"src/lib.rs": wrong + rustTests}, want: "tests::adds failed"},
		{name: "an inline test that is emptied while the code breaks", edits: files{"src/lib.rs": wrong + "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {}\n}\n"}, want: "tests::adds failed"},
		{name: "inline tests that are deleted", edits: files{"src/lib.rs": rustLib}, want: "tests::adds is no longer run"},
		{name: "a test file that is deleted", edits: files{"tests/it.rs": "-"}, want: "works is no longer run"},
		{name: "a test of the work's own that fails is a veto", edits: files{"tests/more.rs": "#[test]\nfn more() {\n    panic!()\n}\n"}, want: "with the work's own tests, "},
		{name: "a test of the work's own does not count", edits: files{"tests/more.rs": "#[test]\nfn more() {}\n"},
			task: func(s *verify.Subject) { s.Task.TestCount = 4 }, want: "test-count-min is 4"},
		{name: "a package that is not there", edits: files{"src/lib.rs": rustLib + "// more\n" + rustTests},
			task: func(s *verify.Subject) { s.Task.TestCrates = []string{"other"} }, want: "other"},
	})
}

// S-13: code under test that lies about its tests.
func TestRustAttacks(t *testing.T) {
	tryAll(t, "cargo", "tests-green", rustBase, []trial{
		{name: "it prints what a pass looks like, and ends", edits: files{"src/lib.rs": `use std::io::Write;

pub fn add(_: u64, _: u64) -> u64 {
    let mut out = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/1").unwrap();
    let _ = out.write_all(b"\ntest tests::adds ... ok\ntest works ... ok\ntest tests::slow ... ignored\n\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n");
    std::process::exit(0)
}
` + rustTests}, want: "rust tests"},
		{name: "a runner in the place of the tests", edits: files{".cargo/config.toml": "[target.'cfg(all())']\nrunner = \"true\"\n", "src/lib.rs": "pub fn add(a: u64, _: u64) -> u64 {\n    a\n}\n" + rustTests}, want: "tests::adds failed"},
		{name: "a harness of its own", edits: files{"Cargo.toml": rustBase["Cargo.toml"] + "\n[[test]]\nname = \"it\"\nharness = false\n", "tests/it.rs": "fn main() {\n    println!(\"test works ... ok\");\n}\n"}, want: "no tests were announced"},
		{name: "a build script that deletes the tests", edits: files{"build.rs": "fn main() {\n    let _ = std::fs::remove_file(\"tests/it.rs\");\n    let _ = std::fs::write(\"tests/it.rs\", \"#[test]\\nfn works() {}\");\n}\n", "src/lib.rs": "pub fn add(a: u64, b: u64) -> u64 {\n    a + b + (a & 1)\n}\n" + rustTests}, want: "rust tests"},
		{name: "tests that cannot be told from the code", edits: files{"src/lib.rs": rustLib + "#[test]\nfn loose() {}\n"}, want: "is no longer run"},
	})
	loose := with(rustBase, files{"src/lib.rs": rustLib + "#[test]\nfn loose() {}\n"})
	tryAll(t, "cargo", "tests-green", loose, []trial{
		{name: "a test outside of a test module, in a file that was changed", edits: files{"src/lib.rs": rustLib + "#[test]\nfn loose() {}\n// more\n"}, want: "a person has to"},
		{name: "one in a file that was not", edits: files{"src/more.rs": "// more\n"}},
	})
}
