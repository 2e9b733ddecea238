package hooks_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/hooks"
)

// P-06: hooks start the small program where it lies beside nacre, and only a program.
func TestHooksStartTheSmallProgramBesideNacre(t *testing.T) {
	for name, test := range map[string]struct {
		make func(small string) error
		want string
	}{
		"it is there":           {func(small string) error { return os.WriteFile(small, nil, 0o755) }, "nacre-hook"},
		"it is not":             {func(string) error { return nil }, "nacre"},
		"it cannot be run":      {func(small string) error { return os.WriteFile(small, nil, 0o644) }, "nacre"},
		"a folder is called so": {func(small string) error { return os.Mkdir(small, 0o755) }, "nacre"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := test.make(filepath.Join(dir, "nacre-hook")); err != nil {
				t.Fatal(err)
			}
			if have := hooks.ProgramFor(filepath.Join(dir, "nacre")); have != filepath.Join(dir, test.want) {
				t.Errorf("have %s", have)
			}
		})
	}
}

// P-06: the small program takes the arguments of a hook's line. For others, and for a pin that is
// not there, it refuses the call with a reason that is kept.
func TestTheSmallProgramRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing":            nil,
		"no pin":             {"hook"},
		"a pin that is gone": {"hook", "--set", "/nonexistent/0.json"},
		"another command":    {"exec", "--set", "/nonexistent/0.json"},
		"more than that":     {"hook", "--set", "/nonexistent/0.json", "--allow"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
			stdin, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdin.Close() }()
			var stdout, stderr bytes.Buffer
			code := hooks.Main(args, stdin, &stdout, &stderr, getenv, time.Now)
			if code != guard.ExitDenied || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), guard.Prefix) {
				t.Errorf("have exit %d, %q, %q", code, stdout.String(), stderr.String())
			}
			kept, err := hooks.Refusals(hooks.HomeFor(getenv).LogFile(), 2)
			if err != nil || len(kept) != 1 {
				t.Errorf("kept %v, %v", kept, err)
			}
		})
	}
}
