package repo_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

func tryOpen(t *testing.T, dir string) (*repo.Project, error) {
	t.Helper()
	return repo.Open(t.Context(), dir, repo.Options{StateDir: t.TempDir()})
}

func TestWhatIsWrongWithAProjectIsSaid(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	bare := filepath.Join(t.TempDir(), "bare.git")
	newUser(t).git("init", "-q", "--bare", bare)
	file := filepath.Join(empty, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	busy := func(name string) string {
		u := withFiles(t, project)
		u.write(map[string]string{".git/" + name: "x\n"})
		return u.dir
	}
	for name, c := range map[string]struct {
		dir  string
		want error
	}{
		"no repository":        {empty, repo.ErrNotRepository},
		"a bare repository":    {bare, repo.ErrBare},
		"the git directory":    {withFiles(t, project).dir + "/.git", repo.ErrBare},
		"no commit":            {newUser(t).dir, repo.ErrUnborn},
		"a merge":              {busy("MERGE_HEAD"), repo.ErrInProgress},
		"a rebase":             {busy("rebase-merge/x"), repo.ErrInProgress},
		"a cherry-pick":        {busy("CHERRY_PICK_HEAD"), repo.ErrInProgress},
		"nothing there":        {filepath.Join(empty, "no"), os.ErrNotExist},
		"a file":               {file, nil},
		"an empty git":         {emptyGit(t), repo.ErrNotRepository},
		"a git that is a pipe": {fifoGit(t), repo.ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryOpen(t, c.dir)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("have %v, want %v", err, c.want)
			}
		})
	}
}

func emptyGit(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fifoGit(t *testing.T) string {
	dir := t.TempDir()
	mkfifo(t, filepath.Join(dir, ".git"))
	return dir
}

func TestAProjectIsFoundFromBelow(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(u.dir, "src"), link); err != nil {
		t.Fatal(err)
	}
	top, err := filepath.EvalSymlinks(u.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{u.dir, filepath.Join(u.dir, "src"), link} {
		p, err := tryOpen(t, dir)
		if err != nil || p.Top != top || p.Branch != "main" || p.Base != u.head("HEAD") {
			t.Errorf("%s: %+v, %v", dir, p, err)
		}
	}
}

func TestOpenRefusesARelativeStateDirectory(t *testing.T) {
	t.Parallel()
	if _, err := repo.Open(t.Context(), withFiles(t, project).dir, repo.Options{StateDir: "x"}); err == nil {
		t.Error("opened")
	}
}

func TestDirtyNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	p, err := tryOpen(t, u.dir)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := p.Dirty(t.Context()); err != nil || !d.Clean() || len(d.Untracked) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	u.write(map[string]string{"README.md": "mine\n", "new dir/x": "1", "x.log": "ignored", "staged é": "1"})
	u.git("add", "staged é")
	u.git("rm", "-q", "old/a")
	d, err := p.Dirty(t.Context())
	slices.Sort(d.Tracked)
	if err != nil || !slices.Equal(d.Tracked, []string{"README.md", "old/a", "staged é"}) || !slices.Equal(d.Untracked, []string{"new dir/"}) {
		t.Errorf("%+v, %v", d, err)
	}
}

// S-11: the clone shares nothing with the user's repository.
func TestTheCloneIsPrivate(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	u.git("remote", "add", "origin", "https://user:secret@example.com/x")
	u.git("branch", "private")
	u.git("tag", "v1")
	u.write(map[string]string{"README.md": "stashed\n"})
	u.git("stash")
	u.git("gc", "-q")
	r := open(t, u)
	inClone := &user{t: t, dir: r.work}
	for _, args := range [][]string{{"remote"}, {"tag"}, {"reflog"}, {"stash", "list"}, {"status", "--porcelain"}} {
		if have := inClone.git(args...); have != "" {
			t.Errorf("git %v: %s", args, have)
		}
	}
	if have := inClone.git("for-each-ref", "--format=%(refname)"); have != "refs/heads/main" {
		t.Errorf("refs %s", have)
	}
	if stash, err := inClone.try("cat-file", "-e", string(u.head("stash"))); err == nil {
		t.Errorf("the stash is in the clone: %s", stash)
	}
	inClone.git("fsck", "--strict")
	if inClone.git("rev-parse", "HEAD") != u.git("rev-parse", "HEAD") {
		t.Error("another HEAD")
	}
	if _, err := os.Lstat(filepath.Join(r.work, ".git/objects/info/alternates")); err == nil {
		t.Error("the clone has alternates")
	}
	noHardLinks(t, r.work)
}

func noHardLinks(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Nlink != 1 {
			t.Errorf("%s is a hard link", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOtherKindsOfRepository(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) *user{
		"sha256": func(t *testing.T) *user {
			u := &user{t: t, dir: t.TempDir()}
			u.git("init", "-q", "-b", "main", "--object-format=sha256")
			u.write(project)
			u.commit("base")
			return u
		},
		"shallow": func(t *testing.T) *user {
			from := withFiles(t, project)
			from.commit("two")
			u := &user{t: t, dir: filepath.Join(t.TempDir(), "shallow")}
			from.git("clone", "-q", "--depth=1", "file://"+from.dir, u.dir)
			return u
		},
		"split index": func(t *testing.T) *user {
			u := withFiles(t, project)
			u.git("update-index", "--split-index")
			u.write(map[string]string{"more": "x"})
			u.commit("more")
			return u
		},
		"packed refs": func(t *testing.T) *user {
			u := withFiles(t, project)
			u.git("pack-refs", "--all")
			u.git("gc", "-q")
			return u
		},
		"a submodule inside": func(t *testing.T) *user {
			sub, u := withFiles(t, project), withFiles(t, project)
			u.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
			u.commit("sub")
			return u
		},
		"index version 4": func(t *testing.T) *user {
			u := withFiles(t, project)
			u.git("update-index", "--index-version=4")
			return u
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := make(t)
			r := open(t, u)
			r.agent(map[string]string{"README.md": "agent\n", "src/added": "a\n", "sub/planted": "x"})
			_, landed, err := r.landAll()
			if err != nil || !landed.Files || len(landed.Left) != 0 {
				t.Fatalf("%+v, %v", landed, err)
			}
			have := files(t, u.dir)
			if planted := have["sub/planted"] != ""; planted == (name == "a submodule inside") {
				t.Errorf("planted in a submodule: %t", planted)
			}
			if have["src/added"] != "a\n" || u.git("status", "--porcelain") != "" {
				t.Errorf("git status: %s", u.git("status", "--porcelain"))
			}
			u.git("fsck", "--strict")
		})
	}
}

func TestASubmoduleIsAProjectOfItsOwn(t *testing.T) {
	t.Parallel()
	sub, u := withFiles(t, project), withFiles(t, project)
	u.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
	u.commit("sub")
	r := open(t, &user{t: t, dir: filepath.Join(u.dir, "sub")})
	r.agent(map[string]string{"src/added": "a\n"})
	if _, landed, err := r.landAll(); err != nil || !landed.Files {
		t.Errorf("%+v, %v", landed, err)
	}
}

// Root on another's repository leaves it theirs, whatever git thinks of owners.
func TestRootLeavesARepositoryToItsOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can own for another")
	}
	const nobody = 65534
	u := withFiles(t, project)
	chmod755(t, filepath.Dir(filepath.Dir(u.dir)))
	give(t, u.dir, nobody)
	r := open(t, u)
	r.agent(map[string]string{"README.md": "agent\n", "new/deep/file": "a\n", "link": "-> src", "run": "#!"})
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	if landed, err := r.land(m.Commit, r.project.Base); err != nil || !landed.Files {
		t.Fatalf("%+v, %v", landed, err)
	}
	err := filepath.WalkDir(u.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != nobody {
			t.Errorf("%s is uid %d's", strings.TrimPrefix(path, u.dir), stat.Uid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func give(t *testing.T, dir string, uid int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// S-11: files that the user's git has elsewhere are not landed here.
func TestARepositoryOfOtherFilesIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree func(dir string) string
		want error
	}{
		"its own folder":           {func(dir string) string { return dir }, nil},
		"its own folder, relative": {func(string) string { return ".." }, nil},
		"another folder":           {func(string) string { return t.TempDir() }, repo.ErrUnsafe},
		"a folder in it":           {func(dir string) string { return filepath.Join(dir, "src") }, repo.ErrUnsafe},
		"a folder that is gone":    {func(dir string) string { return filepath.Join(dir, "gone") }, repo.ErrUnsafe},
	} {
		u := withFiles(t, project)
		u.write(map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n\tworktree = " + c.tree(u.dir) + "\n"})
		if _, err := tryOpen(t, u.dir); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
