package gitdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/gitdir"
)

// M-06: which folder of the project is its repository; none that is not below it.
func TestTheFolderOfARepositoryIsFoundBelowItsProject(t *testing.T) {
	for pointer, want := range map[string]string{
		"gitdir: meta\n": "meta", "gitdir: a/b": "a/b", "gitdir: link": "meta", "gitdir: meta/../a/b": "a/b",
		"gitdir: .\n": "", "gitdir: ..": "", "gitdir: /": "", "gitdir: nothing": "", "gitdir: out": "", "": "", "meta": "",
	} {
		top := t.TempDir()
		for _, dir := range []string{"meta", "a/b"} {
			if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(os.Symlink("meta", filepath.Join(top, "link")), os.Symlink("/usr", filepath.Join(top, "out")), os.WriteFile(filepath.Join(top, ".git"), []byte(pointer), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if have := gitdir.GitFolder(top); have != want {
			t.Errorf("%q: have %q, want %q", pointer, have, want)
		}
	}
	if have := gitdir.GitFolder(t.TempDir()); have != "" {
		t.Errorf("without one: have %q", have)
	}
}

// M-06, M-13: the .git of each submodule is found, by no way but plain folders.
func TestSubmodulesAreFoundByPlainFoldersOnly(t *testing.T) {
	top, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		".gitmodules": "[submodule \"a\"]\n\tpath = lib/a\n\turl = ../a\n[submodule \"b\"]\n\tPATH=\"b c\"\n[submodule \"d\"]\n\tpath = d\n" +
			"\tpath = ../x\n\tpath = /etc\n\tpath = .\n\tpath = .git\n\tpath = a//b\n\tpath =\n\tpath\n\tpath = link\n\tpath = absent\n\tpath = lib/a\n\tpath = file\n",
		"lib/a/.git": "gitdir: ../../.git/modules/a\n", "lib/a/.gitmodules": "[submodule \"n\"]\n path = n\n", "lib/a/n/.git": "gitdir: x\n",
		"b c/.git/HEAD": "ref: refs/heads/main\n", "d/file": "", "file": "",
	} {
		at := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(outside, ".git"), nil, 0o600), os.Symlink(outside, filepath.Join(top, "link"))); err != nil {
		t.Fatal(err)
	}
	want := []string{"lib/a/.git", "b c/.git", "lib/a/n/.git"}
	if have := gitdir.Submodules(top); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	if have := gitdir.Submodules(t.TempDir()); have != nil {
		t.Errorf("have %q where there is none", have)
	}
}
