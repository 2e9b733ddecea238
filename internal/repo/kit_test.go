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
		os.Exit(runPrepared(m))
	}
	os.Exit(bothWays(m))
}

// bothWays runs the tests, and those that made a clone once more over bases.
func bothWays(m *testing.M) int {
	code := runPrepared(m)
	if code == 0 {
		code = againOverBases()
	}
	return code
}

var when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// user is a person's repository, worked on with ordinary git.
type user struct {
	t   testing.TB
	dir string
	// index, where set, is another index than the repository's own.
	index string
}

// apart is the same repository with another index.
func (u *user) apart(index string) *user { return &user{u.t, u.dir, index} }

func newUser(t testing.TB) *user {
	t.Helper()
	return prepare(t, "", initialized).user(t)
}

// initialized begins a repository.
func initialized(u *user) { u.git("init", "-q", "-b", "main") }

// withFiles is a user's repository with these files in one commit.
func withFiles(t testing.TB, files map[string]string) *user {
	t.Helper()
	return prepare(t, fmt.Sprintf("files %q", files), func(u *user) {
		initialized(u)
		u.write(files)
		u.commit("base")
	}).user(t)
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
		"GIT_TEMPLATE_DIR=", // no examples of hooks, which each copy would have
		// No second process after each commit, which has nothing to tidy up in so few objects. No disk is waited for.
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=core.fsync", "GIT_CONFIG_VALUE_1=none")
}

func (u *user) try(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir, cmd.Env = u.dir, gitEnv()
	if u.index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+u.index)
	}
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
	return u.tip()
}

// imports makes the branch one commit of these files and links, by one process. The work tree and the index stay empty.
func (u *user) imports(files map[string]string) {
	u.t.Helper()
	var stream strings.Builder
	stream.WriteString("feature done\ncommit refs/heads/main\ncommitter u <u@example.com> 1700000000 +0000\ndata 0\n")
	for name, text := range files {
		target, isLink := strings.CutPrefix(text, "-> ")
		mode := "100644"
		if isLink {
			mode = "120000"
		}
		fmt.Fprintf(&stream, "M %s inline %s\ndata %d\n%s\n", mode, name, len(target), target)
	}
	stream.WriteString("done\n")
	cmd := exec.CommandContext(u.t.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = u.dir, gitEnv(), strings.NewReader(stream.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// tip is what HEAD is at, read without git where that is a file of its own, as it is after a commit.
func (u *user) tip() repo.Commit {
	u.t.Helper()
	head, err := os.ReadFile(filepath.Join(u.dir, ".git/HEAD"))
	if ref, is := strings.CutPrefix(string(head), "ref: "); err == nil && is {
		head, err = os.ReadFile(filepath.Join(u.dir, ".git", strings.TrimSuffix(ref, "\n")))
	}
	if c, bad := repo.ParseCommit(strings.TrimSuffix(string(head), "\n")); err == nil && bad == nil {
		return c
	}
	return u.head("HEAD")
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
	r := u.session("")
	r.cloneTo(filepath.Join(r.state, "clone"))
	return r
}

// openCopy is open for a test of what comes after the snapshot, to which it is the same in which way the clone was made.
func openCopy(t testing.TB, u *user) *run {
	t.Helper()
	r := u.session("")
	r.copyTo(filepath.Join(r.state, "clone"))
	return r
}

// inClone is the same session in another clone, for another test.
func (r *run) inClone(t testing.TB) *run {
	t.Helper()
	u := *r.user
	u.t = t
	other := &run{user: &u, state: t.TempDir(), project: r.project, baseDir: r.bases()}
	other.cloneTo(filepath.Join(other.state, "clone"))
	return other
}

// session opens a project of a user's without a clone.
func (u *user) session(bases string) *run {
	u.t.Helper()
	r := &run{user: u, state: u.t.TempDir(), baseDir: bases}
	r.reopen()
	return r
}

// cloneTo makes the agent's clone in the way that the tests are run for.
func (r *run) cloneTo(dir string) {
	r.t.Helper()
	if overBases(r.t) {
		r.cloneOver(dir)
		return
	}
	r.copyTo(dir)
}

// copyTo makes the agent's clone as a copy of its own.
func (r *run) copyTo(dir string) {
	r.t.Helper()
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
	fmt.Fprintf(&b, "%v\n", files(u.t, u.dir))
	for _, name := range []string{"index", "HEAD", "packed-refs"} {
		text, err := os.ReadFile(filepath.Join(u.dir, ".git", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			u.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %q\n", name, text)
	}
	fmt.Fprintf(&b, "%q", files(u.t, filepath.Join(u.dir, ".git/refs")))
	return b.String()
}
