package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// porcelain is what people do with git in a working day.
const porcelain = `set -e
git status --porcelain | { ! grep .; }
git log --oneline -1 >/dev/null
echo two >>greeting.txt
git diff | grep -q '^+two'
git commit -q -a -m second
test "$(git log -1 --format='%an %ae')" = "Ann ann@example.com"
git checkout -q -b fix/date
echo date >date.txt; git add date.txt; git commit -q -m date
git branch other "$(git rev-parse HEAD~1)"
git checkout -q other
echo side >side.txt; git add side.txt; git commit -q -m side
git cherry-pick fix/date >/dev/null
git checkout -q fix/date
git rebase -q other
echo wip >>greeting.txt; git stash -q; git stash pop -q; git checkout -q greeting.txt
git worktree add -q /tmp/tree other; test -f "/tmp/tree/$(git rev-parse --show-prefix)side.txt"; git worktree remove /tmp/tree
git tag -a -m one one
git show one >/dev/null
git blame greeting.txt >/dev/null
git merge -q --no-edit other
git fsck --no-dangling >/dev/null 2>&1
git checkout -q "$START"
`

// gitDir is what a git directory holds, byte for byte.
func gitDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	held := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sum := sha256.Sum256(text)
		held[path] = hex.EncodeToString(sum[:])
		return err
	}))
	return held
}

// gitUser makes the user's name known.
func (i *installation) gitUser() {
	i.t.Helper()
	file := i.write("gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.com\n[protocol \"file\"]\n\tallow = always\n")
	i.env = append(i.env, "GIT_CONFIG_GLOBAL="+file)
}

// gitIn runs git in a folder of the work folder.
func (i *installation) gitIn(dir string, args ...string) string {
	i.t.Helper()
	return i.git(append([]string{"-C", filepath.Join(i.work, dir)}, args...)...)
}

// repositories are the kinds that git knows. Each is made beside the repository p.
func repositories() map[string]func(*installation) string {
	return map[string]func(*installation) string{
		"plain": func(*installation) string { return "p" },
		"many branches": func(i *installation) string {
			var commits strings.Builder
			for n := range 10_100 { // more than git is told to be known
				fmt.Fprintf(&commits, "commit refs/heads/b%05d\ncommitter A <a@b.c> %d +0000\ndata 1\nx\nfrom refs/heads/main\n\n", n, n+1)
			}
			i.git("config", "core.logAllRefUpdates", "false")
			cmd := i.command("git", "fast-import", "--quiet")
			cmd.Dir, cmd.Stdin = filepath.Join(i.work, "p"), strings.NewReader(commits.String())
			if out, err := cmd.CombinedOutput(); err != nil {
				i.t.Fatalf("%v\n%s", err, out)
			}
			i.git("pack-refs", "--all")
			return "p"
		},
		"linked worktree": func(i *installation) string {
			i.git("worktree", "add", "-q", "-b", "linked", "../linked")
			return "linked"
		},
		"submodule": func(i *installation) string {
			i.git("init", "-q", "-b", "main", "../super")
			i.gitIn("super", "submodule", "--quiet", "add", "../p", "sub")
			i.gitIn("super", "commit", "-q", "-m", "super")
			return "super/sub"
		},
		"above a submodule": func(i *installation) string {
			i.git("init", "-q", "-b", "main", "../super")
			i.write("super/greeting.txt", "hello\n")
			i.gitIn("super", "submodule", "--quiet", "add", "../p", "sub")
			i.gitIn("super", "add", "-A")
			i.gitIn("super", "commit", "-q", "-m", "super")
			return "super"
		},
		"shallow": func(i *installation) string {
			i.git("commit", "-q", "--allow-empty", "-m", "more")
			i.git("clone", "-q", "--depth", "1", "file://"+filepath.Join(i.work, "p"), "../shallow")
			return "shallow"
		},
		"partial": func(i *installation) string {
			i.git("config", "uploadpack.allowFilter", "true")
			i.git("clone", "-q", "--filter=blob:none", "file://"+filepath.Join(i.work, "p"), "../partial")
			return "partial"
		},
		"sha256": func(i *installation) string {
			i.git("init", "-q", "-b", "main", "--object-format=sha256", "../wide")
			i.write("wide/greeting.txt", "hello\n")
			i.gitIn("wide", "add", "-A")
			i.gitIn("wide", "commit", "-q", "-m", "first")
			return "wide"
		},
		"a folder of it": func(i *installation) string {
			i.write("mono/README", "all\n")
			i.write("mono/other/file", "other\n")
			i.write("mono/services/a [b]/greeting.txt", "hello\n")
			i.git("init", "-q", "-b", "main", "../mono")
			i.gitIn("mono", "add", "-A")
			i.gitIn("mono", "commit", "-q", "-m", "first")
			i.write("mono/other/file", "edited by the user\n")
			return "mono/services/a [b]"
		},
		"split index": func(i *installation) string {
			i.git("update-index", "--split-index")
			return "p"
		},
	}
}

// U-04, F-116, F-117: git works in each kind of repository, what was done comes as
// branches, and the host's git directory only gains them.
func TestGitWorksInTheLiveProject(t *testing.T) {
	t.Parallel()
	for name, prepare := range repositories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			dir := prepare(i)
			start := i.gitIn(dir, "rev-parse", "--abbrev-ref", "HEAD")
			head := i.gitIn(dir, "rev-parse", "HEAD")
			i.gitIn(dir, "status", "--short", ".")
			at := i.gitIn(dir, "rev-parse", "--absolute-git-dir")
			before := gitDir(t, at)
			r := i.nacre("exec", "--session", "works", "--project", dir, "--", "sh", "-c", "START="+start+"; export START; "+porcelain)
			r.want(t, 0, "on fix/date, kept as nacre/works/fix/date", "1 commit on "+start+", kept as nacre/works/"+start)
			after := gitDir(t, at)
			for file, sum := range before {
				if now := after[file]; now != sum {
					t.Errorf("%s is not as it was", file)
				}
			}
			if have := i.gitIn(dir, "rev-parse", "HEAD"); have != head {
				t.Errorf("HEAD moved to %s", have)
			}
			if have := i.gitIn(dir, "show", "nacre/works/fix/date:./date.txt"); have != "date" {
				t.Errorf("the branch has %q", have)
			}
			i.gitIn(dir, "fsck", "--strict", "--no-dangling")
			i.nothingLeft(t)
		})
	}
}

// U-04: submodules are read wherever their repositories are kept: by a project that is a submodule itself, in a linked
// worktree, and by way of whole paths. What is committed in the project comes out.
func TestGitReadsSubmodulesWhereverTheyAreKept(t *testing.T) {
	t.Parallel()
	for project, prepare := range map[string]func(*installation){
		"super":     func(*installation) {},
		"super/sub": func(*installation) {},
		"linked": func(i *installation) {
			i.gitIn("super", "worktree", "add", "-q", "-b", "linked", "../linked")
			i.gitIn("linked", "submodule", "--quiet", "update", "--init", "--recursive")
		},
		"whole": func(i *installation) {
			i.git("clone", "-q", "--recurse-submodules", "../super", "../whole")
			kept := filepath.Join(i.work, "whole/.git/modules/sub")
			i.write("whole/sub/.git", "gitdir: "+kept+"\n")
			i.git("config", "--file", filepath.Join(kept, "config"), "core.worktree", filepath.Join(i.work, "whole/sub"))
		},
		"super/folder": func(i *installation) {
			i.write("super/folder/file", "x\n")
			i.gitIn("super", "submodule", "--quiet", "add", "../p", "folder/sub")
			i.gitIn("super", "submodule", "--quiet", "update", "--init", "--recursive")
			i.gitIn("super", "add", "-A")
			i.gitIn("super", "commit", "-q", "-m", "folder")
		},
	} {
		t.Run(project, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			for _, one := range [][2]string{{"lib", "p"}, {"middle", "lib"}, {"super", "middle"}} {
				i.git("init", "-q", "-b", "main", "../"+one[0])
				i.gitIn(one[0], "submodule", "--quiet", "add", "../"+one[1], "sub")
				i.gitIn(one[0], "commit", "-q", "-m", "of "+one[0])
			}
			i.gitIn("super", "submodule", "--quiet", "update", "--init", "--recursive")
			prepare(i)
			r := i.nacre("exec", "--project", project, "--", "sh", "-ec", `git status --short; git submodule status sub | { ! grep "^-"; }; git submodule foreach -q --recursive 'git status --short; git log -1 --format=%s'
echo edited > sub/new; git status --short; rm sub/new; git commit -q --allow-empty -m made`)
			if r.want(t, 0, "first", "? sub", "1 commit on"); strings.Contains(r.stderr, "fatal") {
				t.Errorf("it says %s", r.stderr)
			}
		})
	}
}

// U-04: a second session that works on the same files is told whether it can read the history.
func TestASecondSessionIsToldWhetherGitCanBeRead(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.git("worktree", "add", "-q", "-b", "linked", "../linked")
	for project, c := range map[string]struct {
		code int
		says string
	}{
		"p":      {0, "git can only be read: another session has git in these files"},
		"linked": {128, "git does not work: another session has git in these files"},
	} {
		first := i.begin("exec", "--project", project, "--", "sh", "-c", "touch begun; until test -e go; do sleep 0.02; done")
		eventually(t, "the first", func() bool { return isThere(filepath.Join(i.work, project, "begun")) })
		i.nacre("exec", "--project", project, "--", "git", "log").want(t, c.code, c.says)
		i.write(project+"/go", "")
		finish(t, first).want(t, 0)
	}
}

// U-04: conflicts of a merge, a cherry-pick and a revert that the user began are solved inside. What is committed has the
// parents and the author that the user's git would have given it. Of a rebase the user is told that it is theirs.
func TestWhatTheUserBeganIsFinishedInside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin []string
		want  string
	}{
		"merge":       {[]string{"merge", "side"}, "MAIN SIDE by Ann: Merge branch 'side'"},
		"cherry-pick": {[]string{"cherry-pick", "side"}, "MAIN by Bob: of side"},
		"revert":      {[]string{"revert", "--no-edit", "HEAD~1"}, "MAIN by Ann: Revert \"before\""},
		"rebase":      {[]string{"rebase", "side"}, "your git is in the middle of a rebase, and git inside does not know of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			i.git("branch", "side")
			for _, line := range []string{"before", "of main"} {
				i.write("p/greeting.txt", line+"\n")
				i.git("commit", "-q", "-a", "-m", line)
			}
			i.git("checkout", "-q", "side")
			i.write("p/greeting.txt", "side\n")
			i.git("commit", "-q", "-a", "-m", "of side", "--author", "Bob <bob@example.com>")
			i.git("checkout", "-q", "main")
			begin := i.command("git", append([]string{"-C", "p"}, c.begin...)...)
			if out, err := begin.CombinedOutput(); err == nil {
				t.Fatalf("there is no conflict: %s", out)
			}
			at := filepath.Join(i.work, "p/.git")
			before := gitDir(t, at)
			r := i.nacre("exec", "--session", "works", "--project", "p", "--", "sh", "-ec", "echo solved >greeting.txt; git add greeting.txt; git commit -q --no-edit")
			if name == "rebase" {
				has(t, r.stderr, c.want)
				return
			}
			r.want(t, 0, "kept as nacre/works")
			after := gitDir(t, at)
			for file, sum := range before {
				if after[file] != sum {
					t.Errorf("%s is not as it was", file)
				}
			}
			have := i.git("log", "-1", "--format=%P by %an: %s", "nacre/works")
			if want := strings.NewReplacer("MAIN", i.git("rev-parse", "main"), "SIDE", i.git("rev-parse", "side")).Replace(c.want); have != want {
				t.Errorf("have %q, want %q", have, want)
			}
		})
	}
}

// nothingLeft wants nacre to keep nothing of what an agent's git directory held.
func (i *installation) nothingLeft(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(i.state("git", "*", "*"))
	check(t, err)
	for _, name := range left {
		if filepath.Base(name) != "lock" {
			t.Errorf("%s was left", name)
		}
	}
}

// U-04: where nothing was committed, nothing is told and nothing is kept.
func TestGitThatOnlyReadsLeavesNothing(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	before := gitDir(t, filepath.Join(i.work, "p/.git"))
	r := i.nacre("exec", "--project", "p", "--", "sh", "-c", "git status && git log && git diff")
	if r.want(t, 0); strings.Contains(r.stderr, "\ngit ") {
		t.Errorf("it tells %q", r.stderr)
	}
	if now := gitDir(t, filepath.Join(i.work, "p/.git")); !maps.Equal(now, before) {
		t.Error("the repository is not as it was")
	}
	i.nothingLeft(t)
}

// U-04: the user's branch moves by fast-forward, and when told to. Its index follows and nothing of the user's own in
// it is lost.
func TestLandingMovesTheBranchForwardOnly(t *testing.T) {
	t.Parallel()
	const more = "echo two >>greeting.txt; echo new >new.txt; git add -A; git commit -q -m second"
	for name, c := range map[string]struct {
		land, script string
		before       func(*installation)
		moved        bool
		status, says string
	}{
		"by itself nothing moves": {script: more, status: "M greeting.txt\n?? new.txt", says: "kept as nacre/lands: `git reset nacre/lands` moves main there"},
		"told to":                 {land: "ff", script: more, moved: true, says: "1 commit on main: the branch was moved there"},
		"what does not follow stays": {
			land: "ff", script: "echo other >greeting.txt; git commit -q -a --amend -m other", status: "M greeting.txt", says: "does not follow the branch",
		},
		"an unrelated staged file stays staged": {
			land: "ff", script: "echo new >new.txt; git add new.txt; git commit -q -m new new.txt", moved: true, status: "A  mine.txt", says: "moved there",
			before: func(i *installation) { i.write("p/mine.txt", "mine\n"); i.git("add", "mine.txt") },
		},
		"a staged change of the same file": {
			land: "ff", script: more, status: "MM greeting.txt\n?? new.txt", says: "the index has changes of its own",
			before: func(i *installation) { i.write("p/greeting.txt", "staged\n"); i.git("add", "greeting.txt") },
		},
		"what the host obeys is held": {
			land: "ff", script: "mkdir -p .github/workflows; echo on: push >.github/workflows/x.yml; " + more, status: "M greeting.txt\n?? .github/\n?? new.txt",
			says: `main was not moved: ".github/workflows/x.yml" changes, and a person has to look at it first: GitHub runs what it says`,
		},
		"a link out of the project is held": {
			land: "ff", script: "ln -s /etc/passwd users; " + more, status: "M greeting.txt\n?? new.txt\n?? users", says: `"users" changes, and a person has to look`,
		},
		"a branch that is checked out in two places": {
			land: "ff", script: more, status: "M greeting.txt\n?? new.txt", says: "branch main is checked out in ",
			before: func(i *installation) { i.git("worktree", "add", "-q", "--force", "../second", "main") },
		},
		"another branch is not the user's": {
			land: "ff", script: "git checkout -q -b side; " + more, status: "M greeting.txt\n?? new.txt", says: "1 commit on side, kept as nacre/lands",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			if c.before != nil {
				c.before(i)
			}
			head := i.git("rev-parse", "HEAD")
			args := []string{"exec", "--session", "lands", "--project", "p"}
			if c.land != "" {
				args = append(args, "--land", c.land)
			}
			i.nacre(append(args, "--", "sh", "-c", c.script)...).want(t, 0, c.says)
			if moved := i.git("rev-parse", "HEAD") != head; moved != c.moved {
				t.Errorf("the branch moved: %t", moved)
			}
			if have := i.git("status", "--short"); have != c.status {
				t.Errorf("status is %q, want %q", have, c.status)
			}
			i.git("fsck", "--strict", "--no-dangling")
			i.nothingLeft(t)
		})
	}
	i := install(t)
	i.nacre("exec", "--land", "force", "--", "true").want(t, 125, "--land is branch, ff or ask")
}

// U-04: in a folder of a repository the session has that folder of the work tree alone. What
// git does to files of the others stays with the session, and commits that change such are
// kept beside the user's branch.
func TestGitInAFolderOfARepository(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.write("p/a/in.txt", "in\n")
	i.write("p/b/out.txt", "out\n")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "folders")
	i.git("branch", "side")
	i.git("worktree", "add", "-q", "../side", "side")
	i.write("side/b/out.txt", "side\n")
	i.gitIn("side", "commit", "-q", "-a", "-m", "side")
	i.write("p/greeting.txt", "of the user\n")
	head := i.git("rev-parse", "HEAD")
	exec := func(session, script string) result {
		return i.nacre("exec", "--session", session, "--project", "p/a", "--land", "ff", "--", "sh", "-ec", script)
	}
	exec("one", `test "$(pwd)" = /workspace/a; test -z "$(git status --porcelain)"; ls -A /workspace
git merge -q --no-edit side; echo mine > /workspace/greeting.txt; git add --sparse ../greeting.txt; git commit -q -m mine`).want(t, 0,
		".git\na\n", `on main, kept as nacre/one (it changes files outside of "a", such as "b/out.txt")`)
	if have := i.git("rev-parse", "HEAD"); have != head || i.read("p/b/out.txt") != "out\n" || i.read("p/greeting.txt") != "of the user\n" {
		t.Errorf("HEAD is %s, want %s; the files hold %q and %q", have, head, i.read("p/b/out.txt"), i.read("p/greeting.txt"))
	}
	exec("tree", `git worktree add -q /tmp/x side; git -C /tmp/x status; test ! -e /tmp/x/b/out.txt
git -C /tmp/x sparse-checkout disable; cat /tmp/x/b/out.txt; test -z "$(git status --porcelain)"`).want(t, 0, "You are in a sparse checkout", "side\n")
	exec("two", "echo more >> in.txt; git commit -q -a -m more").want(t, 0, "1 commit on main: the branch was moved there")
	if have := i.git("status", "--porcelain"); have != "M greeting.txt" || i.git("show", "HEAD:a/in.txt") != "in\nmore" {
		t.Errorf("the status is %q", have)
	}
	i.nothingLeft(t)
}

// U-04: commits have the name and the address that the user's git has for the project. They have them, too, where its
// configuration includes them from files in home, and for some folders alone.
func TestCommitsHaveTheNameThatIsIncluded(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("home/p/file", "x\n")
	i.git("init", "-q", "../home/p")
	i.gitIn("home/p", "commit", "-q", "--allow-empty", "-m", "first")
	i.write("home/.gitconfig-more", "[user]\n\tname = Ann Included\n")
	i.write("home/.gitconfig-work", "[user]\n\temail = ann@work.example\n")
	file := i.write("gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.com\n[include]\n\tpath = ~/.gitconfig-more\n[includeIf \"gitdir:~/p/\"]\n\tpath = ~/.gitconfig-work\n")
	i.env = append(i.env, "GIT_CONFIG_GLOBAL="+file)
	for project, want := range map[string]string{"home/p": "Ann Included <ann@work.example>", "p": "Ann Included <ann@example.com>"} {
		i.nacre("exec", "--project", project, "--", "sh", "-c", "git commit -q --allow-empty -m second; git log -1 --format='%an <%ae>'").want(t, 0, want)
	}
}

// U-04, S-11: where a repository borrows its objects git does not work inside, and no run begins: its agent would read
// the history of the other one. The refusal says so, whole, and what it names helps.
func TestGitThatBorrowsObjects(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.git("clone", "-q", "--shared", ".", "../shared")
	exec := []string{"exec", "--project", "shared", "--", "sh", "-c", "echo more >>greeting.txt; git commit -q -a -m more"}
	const why, remedy = "the repository borrows the objects of another one, in \"", "`git repack -a -d && rm .git/objects/info/alternates`"
	i.nacre(exec...).want(t, 128, "git does not work: "+why, remedy)
	i.nacre("run", "t", "--yes", "--project", "shared", "--recording", i.write("r.jsonl", `{"v":1,"name":"r"}`), "--check", "true").want(t, 2, why, remedy)
	i.gitIn("shared", "repack", "-q", "-a", "-d")
	if err := os.Remove(i.work + "/shared/.git/objects/info/alternates"); err != nil {
		t.Fatal(err)
	}
	i.nacre(exec...).want(t, 0, "1 commit on main, kept as nacre/")
}

// U-04: what git LFS keeps is shown, changed and committed inside as it is outside. The host's files are borrowed and
// those that are new taken, and each is held against its name.
func TestFilesThatGitLFSKeeps(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "git-lfs")
	i := install(t)
	i.gitUser()
	i.project()
	i.git("lfs", "install", "--local")
	i.write("p/.gitattributes", "*.big filter=lfs diff=lfs merge=lfs -text\n")
	i.write("p/one.big", strings.Repeat("one ", 1000))
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "large")
	exec := func(session, script string) result {
		return i.nacre("exec", "--session", session, "--project", "p", "--", "sh", "-ec", script)
	}
	exec("keeps", `touch -d 2001-01-01 one.big; test -z "$(git status --porcelain)"
echo more >>one.big; echo two >two.big; git add -A; git commit -q -m larger
git show HEAD:two.big | grep -q '^oid sha256:'
git checkout -q HEAD~1; tail -c 4 one.big | grep -q one; test ! -e two.big
git checkout -q main; tail -n 1 one.big | grep -q more; echo two | cmp - two.big
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 9\n' 1 >gone.big
git add gone.big; git commit -q -m gone; rm gone.big; git checkout -q gone.big; grep -q ^oid gone.big`).want(t, 0, "2 commits on main, kept as nacre/keeps")
	i.git("clean", "-q", "-f", "-d")
	i.git("checkout", "-q", "-f", "nacre/keeps~1")
	if i.read("p/two.big") != "two\n" || !strings.HasSuffix(i.read("p/one.big"), "more\n") {
		t.Error("the new files were not taken")
	}
	i.git("lfs", "fsck", "--objects", "HEAD")
	i.git("checkout", "-q", "main")
	landed := i.nacre("exec", "--project", "p", "--land", "ff", "--", "sh", "-ec", "echo three >three.big; git add -A; git commit -q -m three")
	if landed.want(t, 0, "the branch was moved there"); strings.Contains(landed.stderr, "differ from your HEAD") || i.git("status", "--porcelain") != "" {
		t.Errorf("files of git LFS are said to differ:\n%s", landed.stderr)
	}
	exec("forges", `echo new >new.big; git add -A; git commit -q -m forged
for f in .git/lfs/objects/*/*/*; do chmod u+w "$f"; echo forged >"$f"; done`).want(t, 0, "were not taken: a file of git LFS is not what its name says")
	if have := i.git("branch", "--list", "nacre/forges"); have != "" {
		t.Errorf("the branch %s is there", have)
	}
}

// U-04: a branch whose name nacre does not take loses nothing: its commits come under another name.
func TestABranchOfAnOddNameIsKept(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	r := i.nacre("exec", "--session", "odd", "--project", "p", "--", "sh", "-ec", `git checkout -q -b odd-1; git commit -q --allow-empty -m taken
git checkout -q -b "fé;x" main; echo kept >>greeting.txt; git commit -q -am lost; git checkout -q main`)
	r.want(t, 0, "1 commit on odd-1", "1 commit on odd-2", `the branch "fé;x" comes as odd-2`)
	if have := i.git("log", "-1", "--format=%s", "nacre/odd/odd-2"); have != "lost" {
		t.Errorf("the branch has %q", have)
	}
}

// U-04: a tag is not taken, and is told with the command that makes it.
func TestTagsAreTold(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.git("tag", "old")
	head := i.git("rev-parse", "HEAD")
	exec := func(script string) result { return i.nacre("exec", "--project", "p", "--", "sh", "-ec", script) }
	exec("git tag light").want(t, 0, "the tag light was not taken: `git tag light "+head[:12]+"` makes it")
	exec("for n in $(seq 20); do git tag t$n; done").want(t, 0, "more than 10 tags are new")
	r := exec(`git tag -a -m text noted; git tag tree "HEAD^{tree}"; git tag 'a;b'
echo 0123456789012345678901234567890123456789 >.git/refs/tags/nothing`)
	r.want(t, 0, "the tag noted was not taken: `git tag noted "+head[:12], "the tag tree was not taken: it leads to no commit",
		`the tag "a;b" was not taken: nacre takes the letters a to z`, "the tag nothing was not taken: it leads to no commit")
	if strings.Contains(r.stderr, "the tag old") {
		t.Error("a tag of the host's is told")
	}
	if have := i.git("tag"); have != "old" {
		t.Errorf("the tags are %q", have)
	}
	i.nothingLeft(t)
}

// U-04: a filter of the repository's own runs neither inside nor outside, which is said.
func TestAFilterThatDoesNotRunIsTold(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.write("p/.gitattributes", "* filter=crypt\n")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "attributes")
	i.git("config", "filter.crypt.clean", "touch "+i.work+"/ran; cat")
	i.nacre("exec", "--project", "p", "--land", "ff", "--", "sh", "-ec", "echo x >x; git add -A; git commit -q -m x; git status").want(t, 0,
		`the filters that the repository names do not run inside (["crypt"])`, "the branch was moved there")
	if isThere(i.work + "/ran") {
		t.Error("the filter ran")
	}
}

// U-04: commits are signed on a person's yes alone, as new commits on the session's branch, with
// the key and the program of the person's own settings.
func TestCommitsAreSignedOnAYesAlone(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	if out, err := i.command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", i.work+"/key").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	i.write("allowed", "ann@example.com "+i.read("key.pub"))
	i.git("config", "gpg.ssh.program", "touch "+i.work+"/ran; false") // the repository's own word
	sign := func(args ...string) result { return i.nacre(append([]string{"sessions", "sign", "made"}, args...)...) }
	i.nacre("exec", "--session", "made", "--project", "p", "--", "sh", "-ec",
		`for n in 1 2; do echo $n >n; git add n; git commit -q -m "change $n" --author "Bo <bo@example.com>" --date 2020-02-03T04:05:06+0700; done; git switch -q -c side HEAD~1; git commit -q --allow-empty -m side`).want(t, 0, "nacre/made/main")
	i.write("gitconfig", i.read("gitconfig")+"[gpg]\n\tformat = ssh\n")
	sign("--branch", "main").want(t, 2, "git knows no key of yours: set user.signingkey")
	i.write("gitconfig", i.read("gitconfig")+"[user]\n\tsigningkey = "+i.work+"/key\n[gpg \"ssh\"]\n\tallowedSignersFile = "+i.work+"/allowed\n")
	before := i.git("rev-parse", "nacre/made/main")
	sign("--branch", "main").want(t, 2, "nobody is here to say that 2 commits of nacre/made/main are signed: add --yes")
	sign("--yes").want(t, 1, "there is no branch nacre/made")
	for _, answer := range []string{"n", "y"} {
		if i.git("rev-parse", "nacre/made/main") != before {
			t.Fatal("it was signed without a yes")
		}
		screen, wait := i.terminal("sessions", "sign", "made", "--branch", "main")
		screen.until("Bo <bo@example.com>  change 2")
		screen.until("sign them? [y/N]")
		screen.typeIn(answer + "\r")
		wait().want(t, map[string]int{"n": 1, "y": 0}[answer])
	}
	i.git("config", "--unset", "gpg.ssh.program")
	if have := i.git("log", "-2", "--format=%G? %an %ae %ai %cn %s", "nacre/made/main"); have != "G Bo bo@example.com 2020-02-03 04:05:06 +0700 Ann change 2\nG Bo bo@example.com 2020-02-03 04:05:06 +0700 Ann change 1" {
		t.Errorf("the commits are\n%s", have)
	}
	if i.git("rev-parse", "nacre/made/main^{tree}") != i.git("rev-parse", before+"^{tree}") || isThere(i.work+"/ran") {
		t.Error("the files are others, or the repository's program ran")
	}
	sign("--branch", "side", "--yes").want(t, 0, "signed", "2 commits")
	i.git("config", "commit.gpgsign", "true")
	i.nacre("exec", "--session", "more", "--project", "p", "--", "git", "commit", "-q", "--allow-empty", "-m", "more").want(t, 0,
		"your git signs commits, and these are not signed: `nacre sessions sign more` asks")
	i.git("config", "--unset", "commit.gpgsign")
	i.git("fsck", "--strict", "--no-dangling")
	i.git("reset", "-q", "nacre/made/main")
	sign("--branch", "main", "--yes").want(t, 1, "other branches have all commits of nacre/made/main")
	i.nacre("sessions", "list").want(t, 0)
}

// U-04: commits that the host's repository cannot take now, as one that is read-only, wait and are told. What was made
// in several sessions is there once the repository can be written.
func TestCommitsWaitForARepositoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.gitUser()
	heads := filepath.Join(i.work, "p/.git/refs/heads")
	for _, session := range []string{"one", "two"} {
		args := []string{"exec", "--project", "p", "--session", session, "--", "git", "commit", "-q", "--allow-empty", "-m", "commit " + session}
		if os.Geteuid() == 0 { // whom no mode stops
			shut := i.command(testpeer.Need(t, "unshare"), append([]string{"-m", "sh", "-c",
				`mount --bind p p && mount -o remount,bind,ro p && exec "$0" "$@"`, filepath.Join(bin, "nacre")}, args...)...)
			out, err := shut.CombinedOutput()
			result{code: exitCode(err), stderr: string(out)}.want(t, 0, "the commits of session "+session+" wait", "p cannot be written (read-only file system)")
			continue
		}
		check(t, os.Chmod(heads, 0o500)) //nolint:gosec // a folder
		i.nacre(args...).want(t, 0, "the commits of session "+session+" wait", heads+" cannot be written (it belongs to you, with mode dr-x------)")
		check(t, os.Chmod(heads, 0o700)) //nolint:gosec // a folder
	}
	i.nacre("exec", "--project", "p", "--session", "three", "--", "true").want(t, 0, "nacre/one", "nacre/two")
	has(t, i.git("log", "--format=%s", "nacre/one", "nacre/two"), "commit one", "commit two")
}

// U-04: commits wait, too, where another program has locked what they would change. Those of a
// session that comes meanwhile replace none.
func TestCommitsWaitForARepositoryThatIsLocked(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	locks := []string{i.write("p/.git/refs/heads/nacre/one.lock", ""), i.write("p/.git/refs/heads/nacre/two.lock", "")}
	for _, session := range []string{"one", "two"} {
		i.nacre("exec", "--project", "p", "--session", session, "--", "git", "commit", "-q", "--allow-empty", "-m", "commit "+session).
			want(t, 0, "the commits of session one wait: ", session+".lock': File exists; once that is put right")
	}
	for _, lock := range locks {
		check(t, os.Remove(lock))
	}
	i.nacre("exec", "--project", "p", "--", "true").want(t, 0, "nacre/one", "nacre/two")
	has(t, i.git("log", "--format=%s", "nacre/one", "nacre/two"), "commit one", "commit two")
	i.nothingLeft(t)
}

// U-04: commits that were made in a work tree which went meanwhile are taken once it is there again.
func TestCommitsWaitForAWorkTreeThatWent(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	side := filepath.Join(i.work, "side")
	i.git("worktree", "add", "-q", side, "-b", "side")
	r := i.begin("exec", "--project", side, "--session", "work", "--", "sh", "-c", "git commit -q --allow-empty -m made; touch ready; while test -e ready; do sleep 0.02; done")
	eventually(t, "the commit", func() bool { return isThere(filepath.Join(side, "ready")) })
	i.git("worktree", "remove", "--force", side)
	have := finish(t, r)
	have.want(t, have.code, "the commits of session work wait: ", side+": no such file or directory; once that is put right")
	i.git("worktree", "add", "-q", side, "side")
	i.nacre("exec", "--project", side, "--", "true").want(t, 0, "nacre/work")
	has(t, i.git("log", "--format=%s", "nacre/work"), "made")
	i.nothingLeft(t)
}

// U-04: a session whose name was used before has its commits on branches of its own, where one has the
// name of the folder that others are in.
func TestBranchesOfASessionStandInNoOthersWay(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	one := func(n string) string { return "git commit -q --allow-empty -m " + n }
	two := func(n string) string {
		return one(n) + "; git switch -q -c side HEAD~1; " + one(n+"-side") + "; git switch -q main"
	}
	for _, c := range []struct{ session, script, want string }{
		{"a", one("a1"), "nacre/a"}, {"a", two("a2"), "nacre-a/side"},
		{"b", two("b1"), "nacre/b/side"}, {"b", one("b2"), "nacre/b.2"},
	} {
		i.nacre("exec", "--project", "p", "--session", c.session, "--", "sh", "-ec", c.script).want(t, 0, "kept as "+c.want)
	}
	has(t, i.git("log", "--format=%s", "--all"), "a1", "a2", "a2-side", "b1", "b1-side", "b2")
	i.nothingLeft(t)
}

// U-04: commits wait, too, where the sealed process that packs them was killed, as the kernel does
// where it wants memory.
func TestCommitsWaitForAPackWhoseMakerWasKilled(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	met := ""
	for n := 0; n < 50 && met == ""; n++ {
		session := fmt.Sprint("s", n)
		r := i.begin("exec", "--project", "p", "--session", session, "--", "git", "commit", "-q", "--allow-empty", "-m", "commit "+session)
		over := make(chan struct{})
		go func() {
			for !killsPacking(r.Process.Pid) {
				select {
				case <-over:
					return
				default:
				}
			}
		}()
		have := finish(t, r)
		close(over)
		have.want(t, 0)
		hasNo(t, have.stderr, "not taken")
		if strings.Contains(have.stderr, "the commits of session "+session+" wait: what packs them was killed; once") {
			met = session
		}
	}
	if met == "" {
		t.Fatal("no packing was met")
	}
	i.nacre("exec", "--project", "p", "--", "true").want(t, 0, "nacre/"+met)
	has(t, i.git("log", "--format=%s", "nacre/"+met), "commit "+met)
	i.nothingLeft(t)
}

// killsPacking ends what packs commits below a process; false where nothing does now.
func killsPacking(pid int) bool {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is ours
	for _, list := range lists {
		children, _ := os.ReadFile(list) // it may have ended
		for _, child := range strings.Fields(string(children)) {
			number, err := strconv.Atoi(child)
			if err != nil {
				continue
			}
			arguments, _ := os.ReadFile("/proc/" + child + "/cmdline") // it may have ended
			if strings.Contains(string(arguments), "GIT_DIR=/var/lib/nacre/git") {
				return syscall.Kill(number, syscall.SIGKILL) == nil
			}
			if killsPacking(number) {
				return true
			}
		}
	}
	return false
}

// F-61, U-04: what is left in a git directory can be such that git never reads it to an end, as a pipe in the place of a
// branch is. Whoever interrupts nacre meanwhile does not wait for it.
func TestTakingCommitsIsInterrupted(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	r := i.begin("exec", "--session", "pipe", "--project", "p", "--", "sh", "-c", "git commit -q --allow-empty -m more; mkfifo .git/refs/heads/pipe")
	eventually(t, "what packs the commits", func() bool { return strings.Count(i.records("pipe"), `"kind":"sandbox.start"`) == 2 })
	check(t, r.Process.Signal(syscall.SIGTERM))
	finish(t, r).want(t, 130)
}

// F-61: of a git directory that could not be made whole nothing is left, which the next session would take for one that an
// agent had.
func TestNothingIsLeftOfAGitDirectoryThatCouldNotBeMade(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	exclude := filepath.Join(i.work, "p/.git/info/exclude")
	check(t, os.MkdirAll(filepath.Dir(exclude), 0o755))
	check(t, os.RemoveAll(exclude))
	check(t, syscall.Mkfifo(exclude, 0o600))
	i.nacre("exec", "--project", "p", "--", "true").want(t, 0, "git can only be read")
	if left, err := filepath.Glob(i.state("git", "*", "work-*")); err != nil || len(left) > 0 {
		t.Errorf("have %v: %v", left, err)
	}
}
