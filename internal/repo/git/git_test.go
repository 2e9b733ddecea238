package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// U-26: git is started once for one answer, also where its version has to be asked for. One that is
// too old, or is not there, is refused with its version.
func TestGitIsAskedOnce(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script  string
		refused string
		runs    int
	}{
		"tells its version with its answer": {`exec ` + real + ` "$@"`, "", 1},
		"tells no version":                  {`unset GIT_TRACE2_EVENT; exec ` + real + ` "$@"`, "", 3},
		"tells an old version":              {`echo '{"event":"version","exe":"2.20.1"}' >&3; case "$*" in *version) echo git version 2.20.1;; esac`, "git 2.20 is too old", 2},
		"knows nothing of it":               {`case "$*" in *version) echo git version 2.20.1;; *) exit 129;; esac`, "git 2.20 is too old", 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\necho >> " + filepath.Join(dir, "runs") + "\n" + c.script + "\n"
			if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir)
			out, err := git.Once(t.Context(), git.Command{GitDir: "/dev/null", Args: []string{"-c", "a.b=kept", "config", "a.b"}})
			if c.refused == "" && (err != nil || string(out) != "kept\n") || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%q, %v", out, err)
			}
			if runs, _ := os.ReadFile(filepath.Join(dir, "runs")); len(runs) != c.runs {
				t.Errorf("git ran %d times, of %d", len(runs), c.runs)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := git.Once(t.Context(), git.Command{GitDir: "/dev/null", Args: []string{"version"}}); err == nil || !strings.Contains(err.Error(), "git is not installed") {
		t.Errorf("without git: %v", err)
	}
}
