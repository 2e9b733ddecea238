package verify_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

// FuzzFunctions: whatever the source, each function lies within it, and no
// lexer panics or hangs.
func FuzzFunctions(f *testing.F) {
	for _, c := range sized {
		f.Add(c.source)
	}
	for _, s := range []string{"r#\"", "b'", "'", "`${`${", "/[", "fn f<", "def", "\\\n", "=>(", "x:{", "async", "function", "/*/*", "'''", "\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, language := range []string{"Go", "Rust", "JavaScript", "Python"} {
			spans, err := verify.Functions(language, []byte(source))
			if err != nil {
				continue
			}
			lines := 1 + strings.Count(strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n"), "\n")
			for _, s := range spans {
				if s[0] < 1 || s[1] < s[0] || s[1] > lines {
					t.Fatalf("%s: lines %d to %d of %d", language, s[0], s[1], lines)
				}
			}
		}
	})
}

// FuzzReport: a report is found or refused; what is found is one object.
func FuzzReport(f *testing.F) {
	for _, s := range []string{`{"a": 1}`, "---\na: 1\n---", "x\n```json\n{}\n```", "x\n{\n}", "---", "```\n```", "{", "}", "---\n- a\n---", "---\n? a\n---", "---\na: &b [*b]\n---"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		report, err := verify.ReadReport(said)
		if (report == nil) == (err == nil) {
			t.Fatalf("%v, %v", report, err)
		}
		if err == nil && !bytes.ContainsAny(said, "{-") {
			t.Fatal("a report out of nothing")
		}
	})
}

// Each is a source on which a careless lexer needs time by the square of its
// length. They end within the test's time, or not at all.
func TestLexersAreLinear(t *testing.T) {
	const n = 100_000
	for name, source := range map[string]string{
		"quotes that do not end":    strings.Repeat(`'\`, n),
		"double ones":               strings.Repeat(`"\`, n),
		"expressions":               strings.Repeat(`/[`, n),
		"functions without a body":  strings.Repeat(`fn a `, n/4),
		"functions of functions":    strings.Repeat(`function a(`, n/4),
		"arrows":                    strings.Repeat(`=>`, n),
		"types":                     strings.Repeat(`a():<`, n/4),
		"comments":                  strings.Repeat(`/*`, n),
		"templates":                 strings.Repeat("`${", n),
		"brackets":                  strings.Repeat("(", n),
		"brackets that cross":       strings.Repeat("({", n) + strings.Repeat("})", n),
		"raw strings":               strings.Repeat(`r#"`, n),
		"raw strings without end":   `r` + strings.Repeat(`#`, n) + `"`,
		"hashes":                    strings.Repeat(`r#`, n),
		"definitions in each other": strings.Repeat("def f(): ", n/4),
		"deep definitions":          deepDefinitions(2000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, language := range []string{"Go", "Rust", "JavaScript", "Python"} {
				_, _ = verify.Functions(language, []byte(source)) // that it ends is what counts
			}
		})
	}
}

func deepDefinitions(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "def f():\n")
	}
	return b.String()
}
