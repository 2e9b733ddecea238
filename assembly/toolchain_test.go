package assembly_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

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
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
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
	for _, found := range assembly.Toolchains(t.Context(), getenv) {
		names = append(names, found.Name)
		for _, m := range found.Mounts {
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
		for _, found := range assembly.Toolchains(t.Context(), getenv) {
			t.Errorf("%q: found %s with %v", strings.ReplaceAll(answer, home, "HOME"), found.Name, found.Mounts)
		}
	}
}
