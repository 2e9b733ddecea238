package repo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

var project = map[string]string{
	"README.md": "hello\n", "src/main.go": "package main\n", "run.sh": "#!/bin/sh\n", "link": "-> README.md",
	"old/a": "a\n", "old/b": "b\n", ".gitignore": "*.log\nout/\n", "crlf.txt": "one\r\ntwo\r\n", "bin": "\x00\x01\x02",
}

// S-11, S-12: what the agent did is what lands, byte for byte.
func TestTheAgentsWorkLands(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := open(t, u)
	sameFiles(t, files(t, r.work), project)
	r.agent(map[string]string{
		"README.md": "hello again\n", "src/new é.go": "package main\r\n", "tool": "#!/bin/sh\necho\n", "crlf.txt": "one\r\n2\r\n",
		"link": "-> src", "data.bin": "\x00\xff\xfe", "x.log": "noise", "out/deep/artefact": "noise", "src/out": "a file called out\n",
		"new link": "-> src/main.go", "  spaces ": "x", "-dash": "x", "quote\"and\\back": "x", "tab\tname": "x",
	})
	r.agentRemoves("old", "run.sh")
	tree, changes := r.snapshot()

	verify := filepath.Join(r.state, "verify")
	if err := r.project.Checkout(context.Background(), tree, verify); err != nil {
		t.Fatal(err)
	}
	if err := r.project.Matches(context.Background(), tree, verify); err != nil {
		t.Error(err)
	}
	want := files(t, r.work)
	delete(want, "x.log")
	delete(want, "out/deep/artefact")
	sameFiles(t, files(t, verify), want)

	skipped := map[string]bool{}
	for _, s := range changes.Skipped {
		skipped[s.Path] = true
	}
	if !skipped["x.log"] || !skipped["out/"] || len(skipped) != 2 {
		t.Errorf("skipped %v", changes.Skipped)
	}
	m := r.merge(tree, r.project.Base)
	landed, err := r.land(m.Commit, r.project.Base)
	if err != nil || !landed.Files || len(landed.Left) != 0 {
		t.Fatalf("%+v, %v", landed, err)
	}
	sameFiles(t, files(t, u.dir), want)
	if have := u.git("status", "--porcelain"); have != "" {
		t.Errorf("git status: %s", have)
	}
	if have, want := u.git("rev-parse", "HEAD^{tree}"), string(tree); have != want {
		t.Errorf("landed tree %s, verified %s", have, want)
	}
	u.git("fsck", "--strict")
	if info, err := os.Stat(filepath.Join(u.dir, "tool")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("tool: %v, %v", info, err)
	}
	leftovers(t, r)
}

// leftovers fails where a landing left a lock, a journal or a temporary file.
func leftovers(t *testing.T, r *run) {
	t.Helper()
	for _, pattern := range []string{".git/index.lock", ".git/nacre-*", ".nacre-*", "*/.nacre-*", ".git/objects/pack/tmp_*"} {
		if names, _ := filepath.Glob(filepath.Join(r.dir, pattern)); len(names) > 0 {
			t.Errorf("left behind: %v", names)
		}
	}
	if scratch, _ := filepath.Glob(filepath.Join(r.state, "scratch", "*")); len(scratch) > 0 {
		t.Errorf("left behind: %v", scratch)
	}
	names, err := os.ReadDir(r.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		switch e.Name() {
		case "vault.git", "clone", "clone.over", "verify", "scratch":
		default:
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

// S-12: pass 2 merges onto the target as it is now.
func TestATargetThatMovedIsMergedOnto(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := openCopy(t, u)
	r.agent(map[string]string{"src/main.go": "package main // agent\n"})
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	u.write(map[string]string{"README.md": "hello from the user\n"})
	target := u.commit("meanwhile")

	before := u.fingerprint()
	_, err := r.land(m.Commit, r.project.Base)
	var moved *repo.MovedError
	if !errors.As(err, &moved) || moved.Have != target {
		t.Fatalf("have %v, want a MovedError", err)
	}
	if u.fingerprint() != before {
		t.Error("a refused landing changed the repository")
	}
	m = r.merge(tree, target)
	if _, err := r.land(m.Commit, target); err != nil {
		t.Fatal(err)
	}
	have := files(t, u.dir)
	if have["README.md"] != "hello from the user\n" || have["src/main.go"] != "package main // agent\n" {
		t.Errorf("have %q", have)
	}
	if have, want := u.git("rev-list", "--parents", "-1", "HEAD"), 3; len(have) != want*41-1 {
		t.Errorf("parents: %s", have)
	}
	if u.git("status", "--porcelain") != "" {
		t.Error("not clean")
	}
}

func TestConflictsAreReported(t *testing.T) {
	t.Parallel()
	for name, version := range map[string][2]int{"this git": {2, 99}, "an older git": {2, 34}} {
		t.Run(name, func(t *testing.T) {
			u := withFiles(t, project)
			r := openCopy(t, u)
			r.agent(map[string]string{"README.md": "agent\n", "bin": "\x00agent", "src/x": "1"})
			r.agentRemoves("old/a")
			tree, _ := r.snapshot()
			u.write(map[string]string{"README.md": "user\n", "bin": "\x00user", "old/a": "user\n"})
			target := u.commit("meanwhile")
			if version[1] < 50 {
				r.project.PretendGit(version[0], version[1])
			}
			before := u.fingerprint()
			_, err := r.tryMerge(tree, target)
			var conflict *repo.ConflictError
			if !errors.As(err, &conflict) || len(conflict.Paths) != 3 || conflict.Paths[0] != "README.md" {
				t.Fatalf("have %v", err)
			}
			if u.fingerprint() != before {
				t.Error("a conflict changed the repository")
			}
		})
	}
}

func TestAnOlderGitMergesTheSame(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone": "x", "mode": "x", "keep": "k"})
	r := openCopy(t, u)
	r.agent(map[string]string{"a": "one\n2\n3\n4\n5\n6\n7\n8\n9\n", "new": "n", "mode": "#!x"})
	tree, _ := r.snapshot()
	u.write(map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n", "theirs": "t"})
	if err := os.Remove(filepath.Join(u.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	target := u.commit("meanwhile")
	now := r.merge(tree, target)
	r.project.PretendGit(2, 34)
	old := r.merge(tree, target)
	if now.Tree != old.Tree {
		t.Errorf("have %s, want %s", old.Tree, now.Tree)
	}
}
