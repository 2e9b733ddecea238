package plugintest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/plugintest"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// runnable ends the test where the language's program is missing, or does not
// run the language as it is.
func runnable(t *testing.T, lang string) {
	t.Helper()
	program := map[string]string{"go": "go", "python": "python3", "typescript": "node"}[lang]
	testpeer.Need(t, program)
	if lang == "typescript" {
		testpeer.Able(t, program, "--input-type=module-typescript", "-e", "const a: number = 1")
	}
}

func conforms(t *testing.T, dir string) {
	t.Helper()
	for _, f := range plugintest.Validate(dir, plugintest.Place{Version: "0.1.0"}) {
		t.Errorf("validate: %+v", f)
	}
	o := options(t, dir)
	o.Limits.Init, o.Patience = 0, 0
	report, err := plugintest.Run(t.Context(), o)
	names, all := failures(report)
	if err != nil || !report.Passed {
		t.Errorf("failed %v, %v\n%s", names, err, all)
	}
}

// D-22: what plugin new makes is valid, passes the conformance run, and its own tests pass.
func TestNewPluginsWork(t *testing.T) {
	t.Parallel()
	for lang, own := range map[string][]string{
		"go": {"go", "test", "."}, "python": {"python3", "-B", "-m", "unittest"}, "typescript": {"node", "--test"},
	} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			runnable(t, lang)
			dir, missing, err := plugintest.New(t.Context(), t.TempDir(), "my-notes2", lang)
			if err != nil || missing != "" {
				t.Fatal(err, missing)
			}
			conforms(t, dir)
			cmd := exec.Command(own[0], own[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("its own tests: %v\n%s", err, out)
			}
		})
	}
}

// D-22: the examples pass.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, lang := range map[string]string{"notes-go": "go", "notes-python": "python", "notes-typescript": "typescript"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runnable(t, lang)
			from := filepath.Join("../../examples/plugins", name)
			dir := filepath.Join(t.TempDir(), name)
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if lang == "go" {
				cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "handler"), "./"+from)
				cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			conforms(t, dir)
		})
	}
}

// D-22: what cannot be made is refused, and nothing is left.
func TestNewRefusals(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, lang, want string }{
		{"Notes", "python", "lower-case"}, {"../x", "python", "lower-case"}, {"", "python", "lower-case"}, {"a b", "python", "lower-case"},
		{"there", "python", "there already"}, {"notes", "cobol", "go, python, typescript"}, {"notes", "", "go, python, typescript"},
	} {
		if _, _, err := plugintest.New(t.Context(), parent, nacre.PluginName(c.name), c.lang); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: have %v, want %q", c.name, c.lang, err, c.want)
		}
	}
	if _, err := plugintest.NewFrom(parent, "notes", map[string][]byte{"a/b": nil, "a": nil}); err == nil {
		t.Error("files that cannot be: accepted")
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
