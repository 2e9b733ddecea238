package repo_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/repo"
)

// editing opens a user's repository with their edits as the base.
func editing(t *testing.T, u *user) (*run, error) {
	t.Helper()
	r := u.session("")
	return r, repo.WithEdits(t.Context(), r.project)
}

// U-20: the base has exactly the files that git would commit of the work tree, whatever was done to
// them. The user's repository stays as it was, and what their hooks and filters would do is not
// done.
func TestTheBaseHasTheUncommittedEdits(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(t *testing.T, u *user){
		"changed, new and gone": func(_ *testing.T, u *user) {
			u.write(map[string]string{"README.md": "mine\n", "a new/fi\nle \"é\"": "x\n", "deep/er/y": "y\n"})
			u.git("rm", "-q", "src/main.go")
		},
		"a mode and links": func(t *testing.T, u *user) {
			chmod755(t, filepath.Join(u.dir, "README.md"))
			u.write(map[string]string{"src/main.go": "-> ../README.md", "out": "-> /etc/passwd", "run": "#!/bin/sh\n"})
		},
		"staged, and changed again": func(_ *testing.T, u *user) {
			u.write(map[string]string{"README.md": "staged\n", "added": "staged\n"})
			u.git("add", "-A")
			u.write(map[string]string{"README.md": "later\n"})
		},
		"staged, and gone": func(t *testing.T, u *user) {
			u.write(map[string]string{"added": "staged\n"})
			u.git("add", "-A")
			if err := os.Remove(filepath.Join(u.dir, "added")); err != nil {
				t.Fatal(err)
			}
		},
		"only an intent to add": func(_ *testing.T, u *user) {
			u.write(map[string]string{"added": "x\n"})
			u.git("add", "-N", "added")
		},
		"a folder for a file": func(t *testing.T, u *user) {
			if err := os.Remove(filepath.Join(u.dir, "README.md")); err != nil {
				t.Fatal(err)
			}
			u.write(map[string]string{"README.md/x": "x\n"})
		},
		"a link for a folder": func(_ *testing.T, u *user) {
			u.write(map[string]string{"other/main.go": "package other\n", "src": "-> other"})
		},
		"a file for a folder": func(t *testing.T, u *user) {
			if err := os.RemoveAll(filepath.Join(u.dir, "src")); err != nil {
				t.Fatal(err)
			}
			u.write(map[string]string{"src": "a file\n"})
		},
		"what is ignored": func(_ *testing.T, u *user) { u.write(map[string]string{".gitignore": "*.env\n", "key.env": "KEY=1\n"}) },
		"a pipe": func(t *testing.T, u *user) {
			if err := unix.Mkfifo(filepath.Join(u.dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"nothing": func(*testing.T, *user) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := withFiles(t, map[string]string{"README.md": "hello\n", "src/main.go": "package main\n", ".gitattributes": ""})
			head := u.head("HEAD")
			edit(t, u)
			before := u.fingerprint()
			r, err := editing(t, u)
			if err != nil {
				t.Fatal(err)
			}
			if after := u.fingerprint(); after != before {
				t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
			}
			have, err := r.project.TreeOf(t.Context(), r.project.Base)
			if err != nil {
				t.Fatal(err)
			}
			apart := u.apart(filepath.Join(t.TempDir(), "index"))
			apart.git("read-tree", "HEAD")
			apart.git("add", "-A")
			want := apart.git("write-tree")
			if string(have) != want {
				t.Errorf("the base has %s, and git would commit %s", have, want)
			}
			if same := want == u.git("rev-parse", "HEAD^{tree}"); same != (r.project.Base == head) {
				t.Errorf("nothing differs: %v, and the base is %s", same, r.project.Base)
			}
		})
	}
}

// U-20: a repository inside and a submodule stay what they are. A filter of the user's makes no
// edit of a file that they did not touch, and what is too big is refused.
func TestWhatIsNoEdit(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"README.md": "hello\n", "big.bin": "pointer\n"})
	u.git("config", "filter.lfs.clean", "echo pointer")
	u.git("config", "filter.lfs.smudge", "echo what it stands for")
	u.write(map[string]string{".gitattributes": "*.bin filter=lfs\n"})
	u.commit("filtered")
	if err := os.Remove(filepath.Join(u.dir, "big.bin")); err != nil {
		t.Fatal(err)
	}
	u.git("checkout", "-q", "--", "big.bin")
	if have := files(t, u.dir)["big.bin"]; have != "what it stands for\n" {
		t.Fatalf("have %q", have)
	}
	long := time.Now().Add(-time.Hour) // else git looks into the file again, without the filter
	if err := os.Chtimes(filepath.Join(u.dir, "big.bin"), long, long); err != nil {
		t.Fatal(err)
	}
	u.git("status")
	head := u.head("HEAD")
	u.write(map[string]string{"inner/x": "x\n"})
	u.git("-C", "inner", "init", "-q")
	r, err := editing(t, u)
	if err != nil || r.project.Base != head {
		t.Fatalf("the base is %s, want %s: %v", r.project.Base, head, err)
	}
	f, err := os.Create(filepath.Join(u.dir, "huge"))
	if err == nil {
		err = errors.Join(f.Truncate(repo.MaxFile+1), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := editing(t, u); !errors.Is(err, repo.ErrTooBig) {
		t.Errorf("have %v", err)
	}
}

// U-20: what lands are the agent's changes, on top of where the branch is by then, and not the
// user's edits. A clone of a session that is carried on has the edits still.
func TestOnlyTheAgentsChangesLand(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("line\n", 20)
	u := withFiles(t, map[string]string{"README.md": text, "src/main.go": "package main\n"})
	u.write(map[string]string{"README.md": "mine\n" + text, "note": "mine\n"})
	r, err := editing(t, u)
	if err != nil {
		t.Fatal(err)
	}
	r.reopen()
	r.cloneTo(filepath.Join(r.state, "clone"))
	if have := files(t, r.work); !overBases(t) && (have["README.md"] != "mine\n"+text || have["note"] != "mine\n") {
		t.Fatalf("the agent sees %v", have)
	}
	r.agent(map[string]string{"src/main.go": "package theirs\n"})
	tree, changes := r.snapshot()
	if len(changes.Files) != 1 || changes.Files[0].Path != "src/main.go" {
		t.Errorf("the agent changed %v", changes.Files)
	}
	u.git("stash", "-q", "-u")
	u.write(map[string]string{"other": "later\n"})
	head := u.commit("later")
	u.git("stash", "pop", "-q")
	merged := r.merge(tree, head)
	if have := strings.Fields(u.gitOf(r, "rev-list", "--parents", "-1", string(merged.Commit))); len(have) != 2 || have[1] != string(head) {
		t.Errorf("the commit and its parents: %v", have)
	}
	if landed, err := r.land(merged.Commit, head); err != nil || !landed.Files {
		t.Fatalf("have %+v, %v", landed, err)
	}
	want := map[string]string{"README.md": "mine\n" + text, "note": "mine\n", "src/main.go": "package theirs\n", "other": "later\n"}
	if have := files(t, u.dir); !maps.Equal(have, want) {
		t.Errorf("have %v", have)
	}
	if have := u.git("status", "--porcelain"); have != " M README.md\n?? note" {
		t.Errorf("git status says %q", have)
	}
}

// gitOf runs git in the host's own git directory of a run.
func (u *user) gitOf(r *run, args ...string) string {
	u.t.Helper()
	return u.git(append([]string{"--git-dir", filepath.Join(r.state, "vault.git")}, args...)...)
}

// U-20: a base that an outsider made to look like edits is none: what names them is in the
// host's own git directory.
func TestACommitOfTheProjectsIsNoEdits(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"README.md": "hello\n"})
	u.commit("uncommitted edits")
	u.git("update-ref", "refs/nacre/edits", "HEAD")
	r := open(t, u)
	r.agent(map[string]string{"made": "x\n"})
	tree, _ := r.snapshot()
	u.write(map[string]string{"other": "later\n"})
	merged := r.merge(tree, u.commit("later"))
	if have := strings.Fields(u.gitOf(r, "rev-list", "--parents", "-1", string(merged.Commit))); len(have) != 3 {
		t.Errorf("the commit and its parents: %v", have)
	}
}
