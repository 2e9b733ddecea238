package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// U-26: where git is known, no process of it is started for settings that say all by themselves, and they are those
// that git tells. For all others it is asked.
func TestSettingsAreReadWithoutGit(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	const own = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://a.example/b\n[user]\n\temail = here@example.com\n"
	const users = "[user]\n\tname = Ann # of all\n\temail = ann@example.com\n[commit]\n\tgpgsign = true\n"
	for name, c := range map[string]struct {
		own, users string
		asked      bool
	}{
		"plain":                                {own, users, false},
		"no settings of the user's":            {own, "", false},
		"the user includes others":             {own, "[include]\n\tpath = ~/more\n", true},
		"the repository includes others":       {own + "[include]\n\tpath = ../more\n", users, true},
		"settings of one work tree":            {own + "[extensions]\n\tworktreeConfig = true\n", users, true},
		"a form of repository that is not old": {"[core]\n\trepositoryformatversion = 1\n", users, true},
	} {
		t.Run(name, func(t *testing.T) {
			home, runs := t.TempDir(), filepath.Join(t.TempDir(), "runs")
			write := func(name, text string, mode os.FileMode) {
				t.Helper()
				if err := os.WriteFile(name, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			top := filepath.Join(home, "p")
			if out, err := exec.Command("git", "init", "-q", top).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			write(top+"/.git/config", c.own, 0o600)
			write(top+"/more", "[user]\n\tname = Included\n", 0o600)
			write(home+"/more", "[user]\n\tname = Included\n", 0o600)
			if c.users != "" {
				write(home+"/.gitconfig", c.users, 0o600)
			}
			bin := t.TempDir()
			write(bin+"/git", "#!/bin/sh\necho >>"+runs+"\nexec "+real+" \"$@\"\n", 0o700)
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("GIT_CONFIG_GLOBAL", "")
			t.Setenv("GIT_CONFIG_SYSTEM", home+"/none")
			t.Setenv("PATH", bin)
			have, err := repo.Settings(t.Context(), top, true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(runs); (err == nil) != c.asked {
				t.Errorf("git was asked: %v", err == nil)
			}
			want, err := repo.Settings(t.Context(), top, false)
			if err != nil || !slices.Equal(have, want) {
				t.Errorf("have %+v\nwant %+v, %v", have, want, err)
			}
		})
	}
}
