package repo_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) {
	if step := os.Getenv("NACRE_REPO_CHILD"); step != "" {
		os.Exit(landChild(step))
	}
	if os.Getenv(overlayWay) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code := m.Run()
	if code == 0 {
		code = againOverBases()
	}
	os.Exit(code)
}

var when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// user is a person's repository, worked on with ordinary git.
type user struct {
	t   testing.TB
	dir string
}

func newUser(t testing.TB) *user {
	t.Helper()
	u := &user{t, filepath.Join(t.TempDir(), "pro ject é")}
	if err := os.Mkdir(u.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	u.git("init", "-q", "-b", "main")
	return u
}

// withFiles is a user's repository with these files in one commit.
func withFiles(t testing.TB, files map[string]string) *user {
	t.Helper()
	u := newUser(t)
	u.write(files)
	u.commit("base")
	return u
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
		// no second process after each commit, which has nothing to tidy up in so few objects
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false")
}

func (u *user) try(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir, cmd.Env = u.dir, gitEnv()
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
}

func (u *user) git(args ...string) string {
	u.t.Helper()
	out, err := u.try(args...)
	if err != nil {
		u.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (u *user) write(files map[string]string) { writeFiles(u.t, u.dir, files) }

func (u *user) commit(message string) repo.Commit {
	u.t.Helper()
	u.git("add", "-A")
	u.git("commit", "-q", "--allow-empty", "-m", message)
	return repo.Commit(u.git("rev-parse", "HEAD"))
}

func (u *user) head(ref string) repo.Commit {
	u.t.Helper()
	return repo.Commit(u.git("rev-parse", ref+"^{commit}"))
}

// writeFiles writes files; a value that begins with "-> " is a link, one that
// begins with "#!" is executable.
func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		var err error
		switch target, isLink := strings.CutPrefix(text, "-> "); {
		case isLink:
			err = os.Symlink(target, path)
		case strings.HasPrefix(text, "#!"):
			err = testpeer.WriteProgram(path, text)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// files reads a directory back in the form of writeFiles, without .git.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	have := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if name == ".git" {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case e.IsDir():
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			have[name] = "-> " + target
		case e.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			have[name] = string(data)
		default:
			have[name] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// run is one session on a user's project.
type run struct {
	*user
	state   string
	project *repo.Project
	clone   *repo.Clone
	// work is the folder that the agent is shown.
	work string
	// baseDir is where its bases are, once there are any.
	baseDir string
}

func open(t testing.TB, u *user) *run {
	t.Helper()
	r := &run{user: u, state: t.TempDir()}
	r.reopen()
	r.cloneTo(filepath.Join(r.state, "clone"))
	return r
}

// cloneTo makes the agent's clone in the way that the tests are run for.
func (r *run) cloneTo(dir string) {
	r.t.Helper()
	if os.Getenv(overlayWay) != "" {
		r.cloneOver(dir)
		return
	}
	clone, err := r.project.Clone(context.Background(), dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.clone, r.work = clone, clone.Dir
}

func (r *run) reopen() {
	r.t.Helper()
	var base repo.Commit
	if r.project != nil {
		base = r.project.Base
	}
	p, err := repo.Open(context.Background(), r.dir, repo.Options{StateDir: r.state, Base: base, Now: func() time.Time { return when }})
	if err != nil {
		r.t.Fatal(err)
	}
	r.project = p
}

func (r *run) agent(files map[string]string) { writeFiles(r.t, r.work, files) }

func (r *run) agentRemoves(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(r.work, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *run) snapshot() (repo.Tree, repo.Changes) {
	r.t.Helper()
	tree, changes, err := r.clone.Snapshot(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return tree, changes
}

func (r *run) merge(tree repo.Tree, target repo.Commit) repo.Merged {
	r.t.Helper()
	m, err := r.tryMerge(tree, target)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *run) tryMerge(tree repo.Tree, target repo.Commit) (repo.Merged, error) {
	return r.project.Merge(context.Background(), repo.MergeRequest{
		Tree: tree, Target: target, Message: "the agent's work", Author: repo.Author{Name: "agent", Email: "agent@localhost"},
	})
}

const session nacre.SessionID = "s-1"

func (r *run) request(commit, expect repo.Commit) repo.LandRequest {
	return repo.LandRequest{
		Session: session, Branch: "main", Expect: expect, Commit: commit,
		Intent: func(context.Context, repo.Intent) error { return nil },
	}
}

func (r *run) land(commit, expect repo.Commit) (repo.Landed, error) {
	return r.project.Land(context.Background(), r.request(commit, expect))
}

// landAll snapshots, merges onto main as it is, and lands.
func (r *run) landAll() (repo.Merged, repo.Landed, error) {
	r.t.Helper()
	tree, _ := r.snapshot()
	target := r.head("main")
	m := r.merge(tree, target)
	landed, err := r.land(m.Commit, target)
	return m, landed, err
}

// sameFiles compares two directories' files in the form of writeFiles.
func sameFiles(t testing.TB, have, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got, ok := have[name]; !ok || got != text {
			t.Errorf("%q: have %.60q (there: %t), want %.60q", name, got, ok, text)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is there, and should not be", name)
		}
	}
}

// fingerprint is everything of a repository that a failure must leave alone.
func (u *user) fingerprint() string {
	u.t.Helper()
	var b strings.Builder
	index, err := os.ReadFile(filepath.Join(u.dir, ".git", "index"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.t.Fatal(err)
	}
	fmt.Fprintf(&b, "%v\n%x\n%s\n%s", files(u.t, u.dir), index, u.git("for-each-ref"), u.git("rev-parse", "--symbolic-full-name", "HEAD"))
	return b.String()
}
