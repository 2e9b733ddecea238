package verify_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/verify"
)

const goTestFile = `package sum

import "testing"

func TestAdd(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(string(rune('a'+n)), func(t *testing.T) {
			if Add(n, 1) != n+1 {
				t.Fatal("wrong sum")
			}
		})
	}
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

func TestOnlyIfAsked(t *testing.T) {
	if !Asked() {
		t.Skip("not asked")
	}
}
`

var goBase = files{
	"go.mod":            "module example.com/sum\n\ngo 1.21\n",
	"sum.go":            "package sum\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Asked() bool { return true }\n",
	"sum_test.go":       goTestFile,
	"deep/deep.go":      "package deep\n\nfunc Two() int { return 2 }\n",
	"deep/deep_test.go": "package deep_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/sum/deep\"\n)\n\nfunc TestTwo(t *testing.T) {\n\tif deep.Two() != 2 {\n\t\tt.Fatal(2)\n\t}\n}\n",
}

const goSum = "package sum\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Asked() bool { return true }\n\n"

// S-13, F-94: what the base's tests say of the work, by name.
func TestGoTests(t *testing.T) {
	tryAll(t, "go", "tests-green", goBase, []trial{
		{name: "a change that breaks nothing", edits: files{"sum.go": goSum + "func Three() int { return 3 }\n"}},
		{name: "a change that breaks a test", edits: files{"sum.go": "package sum\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Asked() bool { return true }\n"}, want: "TestAdd failed"},
		{name: "a change that does not compile", edits: files{"sum.go": goSum + "func Three() int { return x }\n"}, want: "undefined: x"},
		{name: "a test that is deleted", edits: files{"sum_test.go": "-"}, want: "TestAdd is no longer run"},
		{name: "a test that is renamed", edits: files{"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestPlus(t *testing.T) {}\n"}, want: "TestAdd is no longer run"},
		{name: "a test that is emptied while the code breaks", edits: files{
			"sum.go":      "package sum\n\nfunc Add(a, b int) int { return 0 }\n\nfunc Asked() bool { return true }\n",
			"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { t.Run(\"b\", func(*testing.T) {}); t.Run(\"c\", func(*testing.T) {}) }\n",
		}, want: "TestAdd/b failed"},
		{name: "code that makes a test skip itself", edits: files{"sum.go": "package sum\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Asked() bool { return false }\n"}, want: "TestOnlyIfAsked is skipped"},
		{name: "a test of the work's own that fails is a veto", edits: files{"more_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) { t.Fatal() }\n"}, want: "with the work's own tests, "},
		{name: "a test of the work's own does not count", edits: files{"more_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {}\n"},
			task: func(s *verify.Subject) { s.Task.TestCount = 6 }, want: "test-count-min is 6"},
		{name: "as many tests as the task wants", edits: files{"sum.go": goSum + "// more\n"}, task: func(s *verify.Subject) { s.Task.TestCount = 5 }},
		{name: "a package that is deleted", edits: files{"deep/deep.go": "-", "deep/deep_test.go": "-"}, want: "TestTwo"},
	})
}

// S-13: code under test that lies about its tests.
func TestGoAttacks(t *testing.T) {
	broken := "package sum\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nvar _ = fmt.Sprint\n\nvar _ = os.Exit\n\nfunc Asked() bool { return true }\n\n"
	tryAll(t, "go", "tests-green", goBase, []trial{
		{name: "it ends well before any test", edits: files{"sum.go": broken + "func Add(a, b int) int { return 0 }\n\nfunc init() { os.Exit(0) }\n"}, want: "is no longer run"},
		{name: "it prints what a pass looks like, and ends", edits: files{"sum.go": broken + `func Add(a, b int) int {
	fmt.Print("--- PASS: TestAdd (0.00s)\n=== RUN   TestSkipped\n--- SKIP: TestSkipped (0.00s)\n=== RUN   TestOnlyIfAsked\n--- PASS: TestOnlyIfAsked (0.00s)\nPASS\n")
	os.Exit(0)
	return 0
}
`}, want: "sum"},
		{name: "it prints the framed lines that test2json reads", edits: files{"sum.go": broken + `func Add(a, b int) int {
	for _, name := range []string{"TestAdd/b", "TestAdd/c", "TestAdd", "TestOnlyIfAsked"} {
		fmt.Printf("\n\x16=== RUN   %s\n\x16--- PASS: %s (0.00s)\n", name, name)
	}
	fmt.Print("\x16PASS\n")
	os.Exit(0)
	return 0
}
`}, want: "sum"},
		{name: "it prints events of its own", edits: files{"sum.go": broken + `func Add(a, b int) int {
	for _, name := range []string{"TestAdd/b", "TestAdd/c", "TestAdd"} {
		fmt.Printf("{\"Action\":\"pass\",\"Package\":\"example.com/sum\",\"Test\":%q}\n", name)
	}
	os.Exit(0)
	return 0
}
`}, want: "TestAdd"},
		{name: "it writes into the runner's own output", edits: files{"sum.go": broken + `func Add(a, b int) int {
	out, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", os.Getppid()), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		for _, name := range []string{"TestAdd/b", "TestAdd/c", "TestAdd", "TestOnlyIfAsked"} {
			fmt.Fprintf(out, "{\"Action\":\"pass\",\"Package\":\"example.com/sum\",\"Test\":%q}\n", name)
		}
		fmt.Fprintf(out, "{\"Action\":\"pass\",\"Package\":\"example.com/sum\"}\n")
	}
	os.Exit(0)
	return 0
}
`}, want: "sum"},
		{name: "it kills its parent", edits: files{"sum.go": "package sum\n\nimport \"syscall\"\n\nfunc Asked() bool { return true }\n\nfunc Add(a, b int) int { _ = syscall.Kill(syscall.Getppid(), 9); select {} }\n"}, want: "go tests", limit: 20 * time.Second},
		{name: "it hangs", edits: files{"sum.go": broken + "func Add(a, b int) int { select {} }\n\nfunc init() { go func() { for {} }() }\n"}, want: "did not end", limit: 10 * time.Second},
		{name: "it floods its output", edits: files{"sum.go": broken + "func Add(a, b int) int {\n\tfor i := 0; i < 400000; i++ {\n\t\tfmt.Println(\"0123456789012345678901234567890123456789\")\n\t}\n\treturn a + b\n}\n"}, want: "not whole"},
		{name: "it panics after its tests said ok", edits: files{"sum.go": broken + "func Add(a, b int) int {\n\tgo func() { fmt.Print(\"ok\\n--- PASS: TestAdd (0.00s)\\n\"); panic(\"late\") }()\n\tselect {}\n}\n"}, want: "TestAdd"},
		{name: "a TestMain that runs nothing", edits: files{"main_test.go": "package sum\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(0) }\n"}, want: "with the work's own tests"},
		{name: "a test that is built for nobody", edits: files{"sum_test.go": "//go:build ignore\n\n" + goTestFile}, want: "with the work's own tests"},
		{name: "a build tag that leaves the code out", edits: files{"sum.go": "//go:build ignore\n\n" + goSum}, want: "sum"},
		{name: "a module that hides a package", edits: files{"deep/go.mod": "module example.com/sum/deep\n\ngo 1.21\n"}, want: "TestTwo"},
		{name: "a workspace that leaves the project out", edits: files{"go.work": "go 1.21\n\nuse ./other\n", "other/go.mod": "module other\n\ngo 1.21\n"}},
		{name: "a module in the place of another", edits: files{"go.mod": "module example.com/sum\n\ngo 1.21\n\nreplace example.com/x => ./x\n"},
			task: func(s *verify.Subject) { s.Task.AllowDepBump = true }, want: "more than its dependencies"},
		{name: "a folder that is a link now", edits: files{"deep/deep.go": "-", "deep/deep_test.go": "-", "deep": "link:other", "other/deep.go": "package deep\n\nfunc Two() int { return 2 }\n"}, want: "TestTwo"},
	})
}

// S-13: flags that the surroundings carry do not reach the runner.
func TestGoFlagsArePinned(t *testing.T) {
	for name, value := range map[string]string{
		"GOFLAGS": "-run=Nothing -exec=/bin/true", "GOTOOLCHAIN": "go1.2.3", "GOENV": "/nonexistent", "GOWORK": "/nonexistent/go.work",
	} {
		t.Setenv(name, value)
	}
	tryAll(t, "go", "tests-green", goBase, []trial{
		{name: "a change that breaks a test", edits: files{"sum.go": "package sum\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Asked() bool { return true }\n"}, want: "TestAdd failed"},
		{name: "one that does not", edits: files{"sum.go": goSum + "// more\n"}},
	})
}
