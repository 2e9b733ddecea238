package repo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// S-12: where the work tree cannot follow, the commit stays on a branch of its
// own, everything else is as it was, and the command given takes the work.
func TestWorkThatCannotLandStaysOnABranchOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *user){
		"a file was changed":  func(_ *testing.T, u *user) { u.write(map[string]string{"README.md": "mine\n"}) },
		"a change was staged": func(_ *testing.T, u *user) { u.write(map[string]string{"README.md": "mine\n"}); u.git("add", ".") },
		"a file was deleted":  func(_ *testing.T, u *user) { u.git("rm", "-q", "--cached", "README.md") },
		"a mode was changed":  func(t *testing.T, u *user) { chmod755(t, filepath.Join(u.dir, "README.md")) },
		"an untracked file":   func(_ *testing.T, u *user) { u.write(map[string]string{"src/added": "mine\n"}) },
		"an ignored file": func(_ *testing.T, u *user) {
			u.write(map[string]string{".git/info/exclude": "note\n", "note": "mine\n"})
		},
		"a link for a folder": func(_ *testing.T, u *user) { u.write(map[string]string{"deep": "-> /etc"}) },
		"a folder for a file": func(_ *testing.T, u *user) { u.write(map[string]string{"src/added/x": "mine\n"}) },
		"git holds the lock":  func(_ *testing.T, u *user) { u.write(map[string]string{".git/index.lock": ""}) },
		"a merge has begun": func(_ *testing.T, u *user) {
			u.write(map[string]string{".git/MERGE_HEAD": string(u.head("HEAD")) + "\n"})
		},
		"a file is not watched": func(_ *testing.T, u *user) { u.git("update-index", "--assume-unchanged", "README.md") },
		"a file is sparse":      func(_ *testing.T, u *user) { u.git("update-index", "--skip-worktree", "README.md") },
		"the branch is elsewhere": func(t *testing.T, u *user) {
			u.git("checkout", "-q", "--detach")
			u.git("worktree", "add", "-q", filepath.Join(t.TempDir(), "w t"), "main")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := worked(t, project, map[string]string{"README.md": "agent\n", "src/added": "a\n", "deep/er/x": "x\n", "note": "n\n"})
			u := r.user
			spoil(t, u)
			before := u.fingerprint()
			landed, err := r.land(m.Commit, r.project.Base)
			var stayed *repo.StayedError
			if !errors.As(err, &stayed) || stayed.Branch != "nacre/s-1" || landed.Ref != "refs/heads/nacre/s-1" {
				t.Fatalf("have %+v, %v", landed, err)
			}
			if u.head("nacre/s-1") != m.Commit {
				t.Error("the branch is not the verified commit")
			}
			// A second landing finds the first.
			if _, err := r.land(m.Commit, r.project.Base); !errors.As(err, &stayed) || stayed.Branch != "nacre/s-1" {
				t.Errorf("again: %v", err)
			}
			u.git("update-ref", "-d", "refs/heads/nacre/s-1")
			if after := u.fingerprint(); after != before {
				t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
			}
			if name != "git holds the lock" {
				leftovers(t, r)
			}
		})
	}
}

func chmod755(t testing.TB, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestTheCommandGivenTakesTheWork(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := openCopy(t, u)
	r.agent(map[string]string{"src/added": "a\n"})
	u.write(map[string]string{"README.md": "mine\n", ".git/index.lock": ""})
	_, _, err := r.landAll()
	var stayed *repo.StayedError
	if !errors.As(err, &stayed) {
		t.Fatal(err)
	}
	if err := os.Remove(u.dir + "/.git/index.lock"); err != nil {
		t.Fatal(err)
	}
	u.git(strings.Fields(stayed.Command())[1:]...)
	if have := files(t, u.dir); have["src/added"] != "a\n" || have["README.md"] != "mine\n" {
		t.Errorf("have %v", have)
	}
}

// S-12: the same session twice works.
func TestASessionMayLandTwice(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	for i, text := range []string{"one\n", "two\n"} {
		r := openCopy(t, u)
		r.agent(map[string]string{"src/added": text, "README.md": text})
		u.write(map[string]string{"README.md": "mine\n"})
		_, landed, err := r.landAll()
		var stayed *repo.StayedError
		if want := []string{"nacre/s-1", "nacre/s-1.2"}[i]; !errors.As(err, &stayed) || stayed.Branch != want {
			t.Fatalf("have %+v, %v; want %s", landed, err, want)
		}
		u.git("checkout", "-q", "README.md")
	}
	r := openCopy(t, u)
	r.agent(map[string]string{"src/added": "three\n"})
	m, _, err := r.landAll()
	if err != nil {
		t.Fatal(err)
	}
	landed, err := r.land(m.Commit, r.project.Base)
	if err != nil || landed.Commit != m.Commit {
		t.Errorf("landing again: %+v, %v", landed, err)
	}
}

func TestABranchNamedNacreIsNoObstacle(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	u.git("branch", "nacre")
	r := openCopy(t, u)
	r.agent(map[string]string{"README.md": "agent\n"})
	u.write(map[string]string{"README.md": "mine\n"})
	_, _, err := r.landAll()
	var stayed *repo.StayedError
	if !errors.As(err, &stayed) || stayed.Branch != "nacre-s-1" {
		t.Errorf("have %v", err)
	}
}

func TestABranchThatNobodyHasCheckedOutJustMoves(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"src/added": "a\n"})
	u := r.user
	u.git("checkout", "-q", "-b", "other")
	before := files(t, u.dir)
	landed, err := r.land(m.Commit, r.project.Base)
	if err != nil || landed.Files || u.head("main") != m.Commit {
		t.Fatalf("%+v, %v", landed, err)
	}
	sameFiles(t, files(t, u.dir), before)
	leftovers(t, r)
}

func TestADetachedHeadKeepsTheWorkOnABranch(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	u.git("checkout", "-q", "--detach")
	r := openCopy(t, u)
	if r.project.Branch != "" {
		t.Fatalf("branch %q", r.project.Branch)
	}
	r.agent(map[string]string{"src/added": "a\n"})
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	request := r.request(m.Commit, r.project.Base)
	request.Branch = r.project.Branch
	_, err := r.project.Land(context.Background(), request)
	var stayed *repo.StayedError
	if !errors.As(err, &stayed) || u.head(stayed.Branch) != m.Commit {
		t.Errorf("have %v", err)
	}
}

func TestALinkedWorktreeLandsInItself(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	tree := filepath.Join(t.TempDir(), "linked tree")
	u.git("worktree", "add", "-q", "-b", "feature", tree)
	r := open(t, &user{t: t, dir: tree})
	r.agent(map[string]string{"src/added": "a\n"})
	snapshot, _ := r.snapshot()
	m := r.merge(snapshot, r.project.Base)
	request := r.request(m.Commit, r.project.Base)
	request.Branch = r.project.Branch
	landed, err := r.project.Land(context.Background(), request)
	if err != nil || !landed.Files {
		t.Fatalf("%+v, %v", landed, err)
	}
	if have := r.git("status", "--porcelain"); have != "" || files(t, tree)["src/added"] != "a\n" {
		t.Errorf("status %q", have)
	}
}

// K-16: no record of the intent, no landing.
func TestAnIntentThatIsNotRecordedStopsTheLanding(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"src/added": "a\n"})
	u := r.user
	before := u.fingerprint()
	for name, intent := range map[string]func(context.Context, repo.Intent) error{
		"nobody records": nil,
		"the disk is full": func(_ context.Context, i repo.Intent) error {
			if i.Ref != "refs/heads/main" || i.New != m.Commit || i.Old != r.project.Base || !i.Files {
				t.Errorf("intent %+v", i)
			}
			return errors.New("disk full")
		},
	} {
		request := r.request(m.Commit, r.project.Base)
		request.Intent = intent
		if _, err := r.project.Land(context.Background(), request); err == nil {
			t.Errorf("%s: landed", name)
		}
		if u.fingerprint() != before {
			t.Errorf("%s: the repository changed", name)
		}
		leftovers(t, r)
	}
}

func TestWhatLandRefuses(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"src/added": "a\n"})
	u := r.user
	before := u.fingerprint()
	for name, change := range map[string]func(*repo.LandRequest){
		"no session":              func(q *repo.LandRequest) { q.Session = "" },
		"a session with a slash":  func(q *repo.LandRequest) { q.Session = "../x" },
		"an option for a branch":  func(q *repo.LandRequest) { q.Branch = "-d" },
		"a branch out of refs":    func(q *repo.LandRequest) { q.Branch = "../../x" },
		"an abbreviated commit":   func(q *repo.LandRequest) { q.Commit = m.Commit[:12] },
		"an option for a commit":  func(q *repo.LandRequest) { q.Commit = "--all" },
		"a commit that is a tree": func(q *repo.LandRequest) { q.Commit = repo.Commit(m.Tree) },
		"a commit of another past": func(q *repo.LandRequest) {
			q.Expect, q.Commit = m.Commit, r.project.Base
		},
	} {
		request := r.request(m.Commit, r.project.Base)
		change(&request)
		if _, err := r.project.Land(context.Background(), request); err == nil {
			t.Errorf("%s was accepted", name)
		}
		if u.fingerprint() != before {
			t.Fatalf("%s: the repository changed", name)
		}
	}
}

// Landing keeps a file that changed between the check and its turn.
func TestAFileThatChangesDuringTheLandingIsLeft(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"README.md": "agent\n", "src/added": "agent\n", "src/main.go": "agent\n"}, "old/a")
	u := r.user
	r.project.Reached(func(step string) {
		if step == "swapped" {
			u.write(map[string]string{"README.md": "mine\n", "src/added": "mine\n", "old/a": "mine\n"})
		}
	})
	landed, err := r.land(m.Commit, r.project.Base)
	if err != nil || strings.Join(landed.Left, " ") != "README.md old/a src/added" {
		t.Fatalf("%+v, %v", landed, err)
	}
	have := files(t, u.dir)
	if have["README.md"] != "mine\n" || have["src/added"] != "mine\n" || have["old/a"] != "mine\n" || have["src/main.go"] != "agent\n" {
		t.Errorf("have %v", have)
	}
	if have, want := u.git("status", "--porcelain"), " M README.md\n M src/added\n?? old/a"; have != want {
		t.Errorf("git status: %q, want %q", have, want)
	}
}

// S-19: many agents' work lands one after the other.
func TestManySessionsLandOneAfterTheOther(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	var runs []*run
	for _, name := range []string{"a", "b", "c"} {
		r := openCopy(t, u)
		r.agent(map[string]string{"src/" + name: name})
		runs = append(runs, r)
	}
	for _, r := range runs {
		if _, landed, err := r.landAll(); err != nil || !landed.Files {
			t.Fatalf("%+v, %v", landed, err)
		}
	}
	have := files(t, u.dir)
	if have["src/a"] != "a" || have["src/b"] != "b" || have["src/c"] != "c" || u.git("status", "--porcelain") != "" {
		t.Errorf("have %v", have)
	}
	u.git("fsck", "--strict")
}

func TestFilesAndFoldersMayChangePlaces(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a/b/c": "1", "a/b/d": "2", "f": "3", "l": "-> f", "g/h": "4", "keep": "k"})
	r := open(t, u)
	r.agentRemoves("a", "f", "l", "g")
	r.agent(map[string]string{"a": "now a file", "f/x/y": "now a folder", "l/z": "was a link", "g": "-> keep"})
	want := files(t, r.work)
	if _, landed, err := r.landAll(); err != nil || len(landed.Left) > 0 {
		t.Fatalf("%+v, %v", landed, err)
	}
	sameFiles(t, files(t, u.dir), want)
	if have := u.git("status", "--porcelain"); have != "" {
		t.Errorf("git status: %s", have)
	}
}

func TestABranchThatStandsForAnotherIsRefused(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	u.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	r := openCopy(t, u)
	r.agent(map[string]string{"src/added": "a\n"})
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	before := u.fingerprint()
	request := r.request(m.Commit, r.project.Base)
	request.Branch = "alias"
	if landed, err := r.project.Land(t.Context(), request); err == nil {
		t.Errorf("landed %+v", landed)
	}
	if u.fingerprint() != before {
		t.Error("the repository changed")
	}
}

// M-55: a session is carried on from its recorded base, wherever HEAD is now.
func TestASessionIsCarriedOnFromItsRecordedBase(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := open(t, u)
	base := r.project.Base
	r.agent(map[string]string{"src/added": "a\n"})
	u.write(map[string]string{"README.md": "mine\n"})
	target := u.commit("meanwhile")
	r.reopen()
	clone, err := r.project.ExistingClone(r.clone.Dir)
	if err != nil || r.project.Base != base {
		t.Fatalf("base %s, %v", r.project.Base, err)
	}
	tree, changes, err := clone.Snapshot(t.Context())
	if err != nil || len(changes.Files) != 1 {
		t.Fatalf("%+v, %v", changes, err)
	}
	if _, err := r.land(r.merge(tree, target).Commit, target); err != nil {
		t.Error(err)
	}
	if have := files(t, u.dir); have["README.md"] != "mine\n" || have["src/added"] != "a\n" {
		t.Errorf("have %v", have)
	}
}

// Landing again what has landed is no error, and does nothing, even where the
// branch went on meanwhile.
func TestWhatHasLandedIsNotLandedAgain(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"src/added": "a\n"})
	u := r.user
	if _, err := r.land(m.Commit, r.project.Base); err != nil {
		t.Fatal(err)
	}
	u.write(map[string]string{"mine": "mine\n"})
	u.git("add", "-A")
	u.git("commit", "-q", "-m", "mine")
	before := u.fingerprint()
	landed, err := r.land(m.Commit, r.project.Base)
	if err != nil || landed.Commit != m.Commit || landed.Ref != "refs/heads/main" {
		t.Errorf("have %+v, %v", landed, err)
	}
	if after := u.fingerprint(); after != before {
		t.Errorf("it changed something:\n%s\n%s", before, after)
	}
}

// U-20: what the user changed, staged or not, keeps nothing from landing that the work does not
// change itself. It is as it was afterwards, also where the landing was killed.
func TestUnrelatedChangesAreNotInTheWay(t *testing.T) {
	t.Parallel()
	for _, kill := range []string{"", "swapped", "deleted", "files", "index"} {
		t.Run(kill, func(t *testing.T) {
			r, m := worked(t, project, map[string]string{"README.md": "agent\n", "src/added": "a\n"})
			u := r.user
			u.write(map[string]string{"old/a": "staged\n", "old/b": "mine\n", "src/own": "own\n"})
			u.git("add", "old/a", "src/own")
			u.write(map[string]string{"old/a": "more\n"})
			if kill == "" {
				if landed, err := r.land(m.Commit, r.project.Base); err != nil || !landed.Files || len(landed.Left) > 0 {
					t.Fatalf("%+v, %v", landed, err)
				}
			} else {
				l := landing{Dir: u.dir, State: r.state, Base: r.project.Base, Expect: r.project.Base, Commit: m.Commit, Kill: kill}
				if !child(t, l) {
					t.Fatal("the child was not killed")
				}
				r.reopen()
				if landed, err := r.project.Recover(context.Background()); err != nil || landed == nil || len(landed.Left) > 0 {
					t.Fatalf("%+v, %v", landed, err)
				}
			}
			have := files(t, u.dir)
			if have["README.md"] != "agent\n" || have["src/added"] != "a\n" || have["old/a"] != "more\n" || have["old/b"] != "mine\n" || u.head("main") != m.Commit {
				t.Errorf("have %q", have)
			}
			if status := u.git("status", "--porcelain"); status != "MM old/a\n M old/b\nA  src/own" && status != "MM old/a\n M old/b\nA  src/own\n" {
				t.Errorf("have %q", status)
			}
			leftovers(t, r)
		})
	}
}

// What a branch may be called is what git says, which is not asked.
func TestBranchesAreNamedAsGitAllows(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r, head := u.session(""), u.tip()
	allowed := map[string]bool{}
	for _, name := range []string{
		"a/b", "@", "a@b", "é", "a.b", "a-", "a{", "HEAD", "a.lockx", ".a", "a/.b", "a.", "a..b", "a.lock", "c.lock/b", "a//b", "/a", "a/", "a b", "a~b", "a^b", "a:b",
		"a?b", "a*b", "a[b", `a\b`, "a@{b", "a\tb", "a\x7fb",
	} {
		_, refused := u.try("check-ref-format", "refs/heads/"+name)
		if allowed[name] = refused == nil; refused == nil {
			u.write(map[string]string{".git/refs/heads/" + name: string(head) + "\n"})
		}
	}
	for name, allows := range allowed {
		if have, err := r.project.Head(t.Context(), name); allows != (err == nil) || allows != (have == head) {
			t.Errorf("%q: have %s, %v, and git allows it: %t", name, have, err, allows)
		}
	}
}
