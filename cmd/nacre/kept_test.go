package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// M-13: a file that is read-only inside goes on as the agent likes once the host has replaced it. The operator is told of
// that at once, and at the end of what is new.
func TestAFileThatTheHostReplacesIsNotKeptAnyMore(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	for _, name := range []string{".envrc", ".npmrc"} {
		i.write("p/"+name, "")
	}
	r := i.begin("exec", "--project", "p", "--", "sh", "-c", "echo x >>.envrc || touch begun; until test -e go; do sleep 0.1; done; echo planted >>.envrc; echo x >>.npmrc || echo kept")
	eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/begun")); return err == nil })
	i.write("p/new", "export A=1\n")
	check(t, os.Rename(filepath.Join(i.work, "p/new"), filepath.Join(i.work, "p/.envrc")))
	eventually(t, "the notice", func() bool { return strings.Contains(r.stderr.String(), ".envrc was replaced on this machine") })
	i.write("p/go", "")
	have := finish(t, r)
	have.want(t, 0, "kept", ".envrc is new or changed")
	if strings.Count(have.stderr, "was replaced on this machine") != 1 || i.read("p/.envrc") != "export A=1\nplanted\n" {
		t.Errorf("have %q\n%s", i.read("p/.envrc"), have.stderr)
	}
}

// M-13: what a package manager linked from a cache is one file with what is in the cache, and is named where it changed.
func TestAFileOfACacheThatTheCommandChangedIsNamed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("cache/lib.js", "of the cache\n")
	check(t, os.MkdirAll(filepath.Join(i.work, "p/node_modules/a"), 0o755))
	check(t, os.Link(filepath.Join(i.work, "cache/lib.js"), filepath.Join(i.work, "p/node_modules/a/lib.js")))
	i.nacre("exec", "--project", "p", "--", "cat", "node_modules/a/lib.js").want(t, 0, "of the cache")
	r := i.nacre("exec", "--project", "p", "--", "sh", "-c", "echo planted >>node_modules/a/lib.js")
	r.want(t, 0, "lib.js is new or changed: a hard link", "of a package cache")
}

// M-13: a command does not go on beside a .git that the host has put in the place of the one that was kept from it.
func TestACommandEndsWhereTheHostReplacesGit(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	r := i.begin("exec", "--project", "p", "--", "sh", "-c", "touch begun; sleep 100")
	eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/begun")); return err == nil })
	check(t, os.Rename(filepath.Join(i.work, "p/.git"), filepath.Join(i.work, "old")))
	check(t, os.Mkdir(filepath.Join(i.work, "p/.git"), 0o755))
	have := finish(t, r)
	if have.code == 0 || !strings.Contains(have.stderr, ".git was replaced on this machine") {
		t.Errorf("have %d\n%s", have.code, have.stderr)
	}
}
