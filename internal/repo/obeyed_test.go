package repo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// M-13: what the user's own configuration of git names in a project runs there, too.
func TestWhatTheUsersGitConfigurationNamesIsFound(t *testing.T) {
	for name, c := range map[string]struct{ file, config string }{
		"hooks below each project":           {".gitconfig", "[core]\n\thooksPath = tools/hooks\n"},
		"hooks below the home":               {".gitconfig", "[core]\n\thooksPath = ~/src/p/tools/hooks\n"},
		"the other file":                     {".config/git/config", "[core]\n\thooksPath = tools/hooks\n"},
		"a configuration for some projects":  {".gitconfig", "[includeIf \"gitdir:~/src/\"]\n\tpath = ~/src/p/tools/hooks\n"},
		"a program that compares":            {".gitconfig", "[diff \"x\"]\n\ttextconv = tools/hooks/show\n"},
		"a configuration that is kept apart": {"dot/gitconfig", "[core]\n\thooksPath = tools/hooks\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("GIT_CONFIG_GLOBAL", "")
			dir := filepath.Join(home, "src/p")
			layOut(t, home, []string{c.file + " = " + c.config})
			if strings.HasPrefix(c.file, "dot/") {
				layOut(t, home, []string{".gitconfig -> " + c.file})
			}
			layOut(t, dir, append(configured(""), "tools/hooks/show", "tools/hooks/other", "tools/free"))
			now, err := os.Lstat(filepath.Join(dir, "tools/free"))
			if err != nil {
				t.Fatal(err)
			}
			start := nextTick(t, dir, now.ModTime())
			for _, name := range []string{"tools/hooks/show", "tools/free"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("y"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, _, err := repo.Since(dir, start)
			if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Path, "tools/hooks/") {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}
