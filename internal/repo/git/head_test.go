package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// P-03: HEAD is read by one run of git, and means the same where that says nothing.
func TestHeadIsReadByOneRun(t *testing.T) {
	dir, runs := t.TempDir(), filepath.Join(t.TempDir(), "runs")
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	host := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(real, append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	counted := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(counted, []byte("#!/bin/sh\necho >> "+runs+"\nexec "+real+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	read := func(atMost int) git.Head {
		t.Helper()
		g, err := git.Find(t.Context(), counted)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(runs)
		h, err := g.Head(t.Context(), git.Command{GitDir: filepath.Join(dir, ".git")})
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := os.ReadFile(runs); len(n) > atMost {
			t.Errorf("git ran %d times, want %d", len(n), atMost)
		}
		return h
	}
	host("init", "-q", "-b", "main")
	if h := read(4); h != (git.Head{Format: "sha1", Ref: "refs/heads/main"}) {
		t.Errorf("without a commit: %+v", h)
	}
	host("commit", "-q", "--allow-empty", "-m", "one")
	one := host("rev-parse", "HEAD")
	if h := read(1); h != (git.Head{Format: "sha1", Ref: "refs/heads/main", Commit: one}) {
		t.Errorf("on a branch: %+v", h)
	}
	host("update-ref", "refs/heads/HEAD", one) // which makes the name of HEAD one of two
	if h := read(4); h != (git.Head{Format: "sha1", Ref: "refs/heads/main", Commit: one}) {
		t.Errorf("beside a branch called HEAD: %+v", h)
	}
	host("update-ref", "-d", "refs/heads/HEAD")
	host("checkout", "-q", "--detach")
	if h := read(1); h != (git.Head{Format: "sha1", Commit: one}) {
		t.Errorf("detached: %+v", h)
	}
	host("config", "core.bare", "true")
	if h := read(1); h != (git.Head{Format: "sha1", Commit: one, Bare: true}) {
		t.Errorf("bare: %+v", h)
	}
	host("symbolic-ref", "HEAD", "refs/elsewhere/x")
	if h := read(4); h != (git.Head{Format: "sha1", Ref: "refs/elsewhere/x", Bare: true}) {
		t.Errorf("bare, on a ref that is no branch: %+v", h)
	}
	host("config", "core.bare", "false")
	if h := read(4); h != (git.Head{Format: "sha1", Ref: "refs/elsewhere/x"}) {
		t.Errorf("on a ref that is no branch: %+v", h)
	}
	if _, err := mustFind(t, counted).Head(t.Context(), git.Command{GitDir: t.TempDir()}); err == nil {
		t.Error("a folder that is no repository has a HEAD")
	}
}

func mustFind(t *testing.T, path string) *git.Program {
	t.Helper()
	g, err := git.Find(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// P-03: a binary is asked for its version once, and again where it was replaced.
func TestABinaryIsAskedForItsVersionOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, runs := filepath.Join(dir, "git"), filepath.Join(dir, "runs")
	write := func(version string) {
		t.Helper()
		fresh := at + ".new"
		if err := os.WriteFile(fresh, []byte("#!/bin/sh\necho >> "+runs+"\necho git version "+version+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, at); err != nil {
			t.Fatal(err)
		}
	}
	write("2.40.1")
	for range 3 {
		if v := mustFind(t, at).Version; v != [2]int{2, 40} {
			t.Errorf("version %v", v)
		}
	}
	write("2.41.0")
	if v := mustFind(t, at).Version; v != [2]int{2, 41} {
		t.Errorf("after it was replaced: version %v", v)
	}
	if n, _ := os.ReadFile(runs); len(n) != 2 {
		t.Errorf("asked %d times, want 2", len(n))
	}
	write("2.20.1")
	if _, err := git.Find(t.Context(), at); err == nil || !strings.Contains(err.Error(), "git 2.20 is too old") {
		t.Errorf("an old one: %v", err)
	}
}
