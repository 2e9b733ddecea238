package toolchain_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/toolchain"
)

// findAll finds the language tools outside of the system folders, and remembers what
// they answered in a file.
func findAll(ctx context.Context, getenv func(string) string, file string) []posture.Toolchain {
	return toolchain.Find(ctx, toolchain.OpenMemo(getenv, file, sandbox.SystemMounts))
}

// program writes a program that answers with lines.
func program(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\n"
	for _, line := range lines {
		text += "echo '" + line + "'\n"
	}
	if err := testpeer.WriteProgram(path, text); err != nil {
		t.Fatal(err)
	}
}

// S-13: compilers that live below a home are found, read-only and without what
// lies beside them.
func TestToolchainsBelowAHome(t *testing.T) {
	home := t.TempDir()
	rust, python, node := filepath.Join(home, ".rustup/toolchains/stable"), filepath.Join(home, ".pyenv/versions/3"), filepath.Join(home, ".nvm/20")
	for _, dir := range []string{rust, python, node, filepath.Join(home, ".cargo/registry")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program(t, filepath.Join(home, "bin/rustc"), rust)
	program(t, filepath.Join(home, "bin/python3"), python, python)
	program(t, filepath.Join(home, "bin/node"), node)
	t.Setenv("PATH", filepath.Join(home, "bin"))
	getenv := func(name string) string {
		return map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin") + ":/usr/bin:/bin"}[name]
	}
	var names, sources []string
	for _, found := range findAll(t.Context(), getenv, filepath.Join(t.TempDir(), "memo")) {
		names = append(names, found.Name)
		for _, m := range append(found.Mounts, found.Fetching.Caches...) {
			if m.Kind != 0 {
				t.Errorf("%s is bound writable", m.Source)
			}
			sources = append(sources, m.Source)
		}
	}
	if want := []string{"rust", "node", "python"}; !slices.Equal(names, want) {
		t.Errorf("have %v, want %v", names, want)
	}
	if want := []string{rust, filepath.Join(home, ".cargo/registry"), node, python}; !slices.Equal(sources, want) {
		t.Errorf("have %v, want %v", sources, want)
	}
}

// A program that answers with a home, or with what is around one, is none.
func TestToolchainIsNoHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", filepath.Join(home, "bin"))
	getenv := func(name string) string { return map[string]string{"HOME": home, "PATH": "/usr/bin:/bin"}[name] }
	if err := os.MkdirAll(filepath.Join(home, ".local"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{home, filepath.Join(home, ".local"), filepath.Dir(home), "/", "", "relative", home + "/nowhere", "/usr"} {
		program(t, filepath.Join(home, "bin/rustc"), answer)
		program(t, filepath.Join(home, "bin/python3"), answer, answer)
		program(t, filepath.Join(home, "bin/node"), answer)
		for _, found := range findAll(t.Context(), getenv, filepath.Join(t.TempDir(), "memo")) {
			t.Errorf("%q: found %s with %v", strings.ReplaceAll(answer, home, "HOME"), found.Name, found.Mounts)
		}
	}
}

// What a program answered is asked again when it, or what it was asked, changed.
func TestAToolchainIsAskedOnce(t *testing.T) {
	home := t.TempDir()
	first, second, log := filepath.Join(home, "node/1"), filepath.Join(home, "node/2"), filepath.Join(home, "log")
	memo := filepath.Join(home, "memo")
	for _, dir := range []string{first, second} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(home, "bin"))
	env := map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin") + ":/usr/bin:/bin"}
	look := func(want string, asked int) {
		t.Helper()
		found := findAll(t.Context(), func(name string) string { return env[name] }, memo)
		text, _ := os.ReadFile(log)
		if len(found) != 1 || found[0].Mounts[0].Source != want || strings.Count(string(text), "asked") != asked {
			t.Errorf("have %v, asked %q; want %s, asked %d times", found, text, want, asked)
		}
	}
	write := func(dir string) {
		t.Helper()
		program(t, filepath.Join(home, "bin/node"), dir)
		text := "#!/bin/sh\necho asked >> " + log + "\necho " + dir + "\n"
		if err := os.WriteFile(filepath.Join(home, "bin/node"), []byte(text+strings.Repeat("#", len(dir)+len(env["NVM_DIR"]))), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	look(first, 1)
	look(first, 1)
	env["NVM_DIR"] = home
	look(first, 2)
	delete(env, "NVM_DIR") // in another terminal
	look(first, 2)
	env["NVM_DIR"] = home
	look(first, 2)
	write(second)
	look(second, 3)
	if err := os.WriteFile(memo, []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	look(second, 4)
	if err := os.RemoveAll(second); err != nil {
		t.Fatal(err)
	}
	if found := findAll(t.Context(), func(name string) string { return env[name] }, memo); len(found) != 0 {
		t.Errorf("a folder that is gone was bound: %v", found)
	}
}

// A program that says that it has no answer is asked again when something was
// installed for it, and after an hour.
func TestAToolchainWithoutAnAnswerIsAskedOnce(t *testing.T) {
	home := t.TempDir()
	log, memo := filepath.Join(home, "log"), filepath.Join(home, "memo")
	t.Setenv("PATH", filepath.Join(home, "bin"))
	getenv := func(name string) string {
		return map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin") + ":/usr/bin:/bin"}[name]
	}
	program(t, filepath.Join(home, "bin/rustc"))
	if err := os.WriteFile(filepath.Join(home, "bin/rustc"), []byte("#!/bin/sh\necho asked >> "+log+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	look := func(asked int) {
		t.Helper()
		found := findAll(t.Context(), getenv, memo)
		if text, _ := os.ReadFile(log); len(found) != 0 || strings.Count(string(text), "asked") != asked {
			t.Errorf("have %v, asked %q; want none, asked %d times", found, text, asked)
		}
	}
	look(1)
	look(1)
	if err := os.MkdirAll(filepath.Join(home, ".rustup/toolchains/stable"), 0o755); err != nil {
		t.Fatal(err)
	}
	look(2)
	look(2)
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(memo, old, old); err != nil {
		t.Fatal(err)
	}
	look(3)
	look(3)
}
