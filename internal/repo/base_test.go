package repo_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// P-03: a base is made once, is its commit's files, and is shared.
func TestABaseIsSharedByTheSessionsOfAProject(t *testing.T) {
	t.Parallel()
	project := map[string]string{"a.txt": "a\n", "bin/run": "#!/bin/sh\n", "to": "-> a.txt"}
	u := withFiles(t, project)
	one := u.session(filepath.Join(t.TempDir(), "bases"))
	first, second := one.base(), u.session(one.bases()).base()
	if first.Files != second.Files {
		t.Errorf("have %s and %s", first.Files, second.Files)
	}
	sameFiles(t, files(t, first.Files), project)
	other := withFiles(t, project) // the same commit, another project
	if have := other.session(one.bases()).base(); have.Files == first.Files {
		t.Error("another project has the same base")
	}
}

// Issue 12: several at once make one base.
func TestABaseThatSeveralMakeAtOnceIsMadeOnce(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a.txt": "a\n"})
	bases := filepath.Join(t.TempDir(), "bases")
	var sessions [4]*run
	for i := range sessions {
		sessions[i] = u.session(bases)
	}
	var made [4]*repo.Base
	var errs [4]error
	var all sync.WaitGroup
	for i, r := range sessions {
		all.Go(func() { made[i], errs[i] = r.overlays().OpenBase(context.Background(), bases) })
	}
	all.Wait()
	for i, b := range made {
		if errs[i] != nil || b.Files != made[0].Files {
			t.Fatalf("%d: have %v, %v", i, b, errs[i])
		}
	}
	if err := made[0].Whole(t.Context()); err != nil {
		t.Error(err)
	}
	for _, b := range made {
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
}

// Issue 12: a base in which anything has changed since it was made is made anew. While a session
// works over it, others do without.
func TestADamagedBaseServesNobody(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"a file is other": func(dir string) error { return os.WriteFile(filepath.Join(dir, "files/a.txt"), []byte("b\n"), 0o600) },
		"as it was in size and time": func(dir string) error {
			file := filepath.Join(dir, "files/a.txt")
			info, err := os.Lstat(file)
			return errors.Join(err, os.WriteFile(file, []byte("b\n"), 0o600), os.Chtimes(file, info.ModTime(), info.ModTime()))
		},
		"a file is gone":    func(dir string) error { return os.Remove(filepath.Join(dir, "files/d/b.txt")) },
		"a file is new":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "files/d/c.txt"), nil, 0o600) },
		"a mode is other":   func(dir string) error { return os.Chmod(filepath.Join(dir, "files/a.txt"), 0o755) },
		"the seal is torn":  func(dir string) error { return os.Truncate(filepath.Join(dir, "seal.json"), 10) },
		"there is no seal":  func(dir string) error { return os.Remove(filepath.Join(dir, "seal.json")) },
		"of another boot":   func(dir string) error { return reseal(dir, `"boot":"`, `"boot":"x`) },
		"of another commit": func(dir string) error { return reseal(dir, `"commit":"`, `"commit":"0`) },
		"a file is linked": func(dir string) error {
			return os.Link(filepath.Join(dir, "files/a.txt"), filepath.Join(dir, "linked"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := withFiles(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
			r := u.session(filepath.Join(t.TempDir(), "bases"))
			b := r.base()
			if err := damage(filepath.Dir(b.Files)); err != nil {
				t.Fatal(err)
			}
			if have, err := r.overlays().OpenBase(t.Context(), r.bases()); !errors.Is(err, repo.ErrNoBase) {
				t.Fatalf("while it is in use: have %v, %v", have, err)
			}
			if err := b.Release(); err != nil {
				t.Fatal(err)
			}
			again := r.base()
			sameFiles(t, files(t, again.Files), map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
			if err := again.Whole(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func reseal(dir, from, to string) error {
	name := filepath.Join(dir, "seal.json")
	text, err := os.ReadFile(name)
	return errors.Join(err, os.WriteFile(name, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// Issue 12: what is verified over a base that was changed under it is refused.
func TestALayerIsNoTreeOverADamagedBase(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(b *repo.Base, layer string) error{
		"the base": func(b *repo.Base, _ string) error {
			return os.WriteFile(filepath.Join(b.Files, "b.txt"), []byte("x"), 0o600)
		},
		"a file of the layer": func(_ *repo.Base, layer string) error {
			return os.WriteFile(filepath.Join(layer, "upper/a.txt"), []byte("x"), 0o600)
		},
		"one more": func(_ *repo.Base, layer string) error {
			return os.WriteFile(filepath.Join(layer, "upper/new"), nil, 0o600)
		},
		"one is hidden": func(_ *repo.Base, layer string) error {
			return unix.Mknod(filepath.Join(layer, "upper/b.txt"), unix.S_IFCHR, 0)
		},
		"one is hidden no more": func(_ *repo.Base, layer string) error { return os.Remove(filepath.Join(layer, "upper/gone.txt")) },
		"a folder hides": func(_ *repo.Base, layer string) error {
			dir := filepath.Join(layer, "upper/d")
			return errors.Join(os.Mkdir(dir, 0o755), unix.Setxattr(dir, "user.overlay.opaque", []byte("y"), 0))
		},
		"a file is elsewhere": func(_ *repo.Base, layer string) error {
			return unix.Setxattr(filepath.Join(layer, "upper/a.txt"), "user.overlay.redirect", []byte("/b.txt"), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := withFiles(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "gone.txt": "g\n", "d/e": "e\n"})
			r := u.session(filepath.Join(t.TempDir(), "bases"))
			b := r.base()
			u.write(map[string]string{"a.txt": "other\n"})
			u.git("rm", "-q", "gone.txt")
			next, err := repo.ParseTree(u.git("rev-parse", string(u.commit("next"))+"^{tree}"))
			if err != nil {
				t.Fatal(err)
			}
			layer := filepath.Join(t.TempDir(), "layer")
			if err := errors.Join(r.overlays().Layer(t.Context(), b, next, layer), r.overlays().LayerMatches(t.Context(), b, next, layer)); err != nil {
				t.Fatal(err)
			}
			if err := damage(b, layer); err != nil {
				t.Fatal(err)
			}
			if err := r.overlays().LayerMatches(t.Context(), b, next, layer); err == nil {
				t.Error("it passes for the tree")
			}
		})
	}
}

// Issue 12: what only an overlay writes into a layer is refused where an overlay of
// ours does not write it.
func TestALayerOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	for mark, value := range map[string]string{
		"user.overlay.redirect": "/b.txt", "user.overlay.metacopy": "", "user.overlay.whiteout": "", "user.overlay.opaque": "x", "user.overlay.unknown": "1",
	} {
		t.Run(mark, func(t *testing.T) {
			t.Parallel()
			u := withFiles(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
			r := u.session(filepath.Join(t.TempDir(), "bases"))
			clone, err := r.overlays().CloneOver(t.Context(), r.base(), filepath.Join(r.state, "clone"))
			if err != nil {
				t.Fatal(err)
			}
			upper := filepath.Join(clone.Dir, nacre.LayerUpper)
			writeFiles(t, upper, map[string]string{"a.txt": "x", "d/new.txt": "x"})
			at := filepath.Join(upper, "a.txt")
			if mark == "user.overlay.opaque" {
				at = filepath.Join(upper, "d")
			}
			if err := unix.Setxattr(at, mark, []byte(value), 0); err != nil {
				t.Skip("this file system keeps no such attribute:", err)
			}
			if _, _, err := clone.Snapshot(t.Context()); !errors.Is(err, repo.ErrUnsafe) {
				t.Errorf("have %v", err)
			}
		})
	}
}

// P-03: work that lands does not make the next work's base useless. A commit that differs in few
// files is a layer over an earlier one's base, in which git sees nothing changed, and from which
// the same tree comes back.
func TestABaseServesTheCommitsNearIt(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a.txt": "a\n", "gone/b.txt": "b\n", "was": "file\n", "dir/c": "c\n", "run": "#!/bin/sh\n"})
	bases := filepath.Join(t.TempDir(), "bases")
	first := u.session(bases).base()
	u.git("rm", "-r", "-q", "gone", "was", "dir")
	u.write(map[string]string{"a.txt": "more\n", "was/now": "in it\n", "dir": "a file\n", "run": "no more\n", "new/e": "-> ../a.txt"})
	u.commit("next")
	r := u.session(bases)
	b := r.base()
	if b.Files != first.Files {
		t.Fatal("it has a base of its own")
	}
	dir := filepath.Join(r.state, "clone")
	clone, err := r.overlays().CloneOver(t.Context(), b, dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, changes, err := clone.Snapshot(t.Context())
	if err != nil || len(changes.Files) != 0 || string(tree) != u.git("rev-parse", "HEAD^{tree}") {
		t.Errorf("untouched: have %s, %+v, %v", tree, changes, err)
	}
	if !overBases(t) {
		return // nothing more without a mount
	}
	r.clone, r.work = clone, merged(t, b, dir)
	if err := unix.Mount(filepath.Join(dir, ".git"), filepath.Join(r.work, ".git"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, r.work), files(t, u.dir))
	if have := (&user{t: t, dir: r.work}).git("status", "--porcelain"); have != "" {
		t.Errorf("git status: %s", have)
	}
	r.agentRemoves("was", "dir")
	r.agent(map[string]string{"gone/b.txt": "back\n", "dir/c": "c again\n"})
	if tree, changes = r.snapshot(); len(changes.Files) != 4 {
		t.Errorf("have %+v", changes.Files)
	}
	out := filepath.Join(r.state, "verify")
	if err := r.project.Checkout(t.Context(), tree, out); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, out), files(t, r.work))
}

// S-11, P-03: a clone holds its commit's history and nothing else of the user's. A base of a commit
// that is in no such history serves no other commit, since its git folder has what the user took
// back. Here that is a commit whose secret was amended away.
func TestABaseOfAnotherHistoryServesNoOtherCommit(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a.txt": "a\n"})
	u.write(map[string]string{"secret.txt": "the key\n"})
	u.commit("with a secret")
	secret := u.git("rev-parse", "HEAD:secret.txt")
	bases := filepath.Join(t.TempDir(), "bases")
	before := u.session(bases).base()
	u.git("rm", "-q", "secret.txt")
	u.write(map[string]string{"b.txt": "b\n"})
	u.git("add", "-A")
	u.git("commit", "-q", "--amend", "-m", "without it")
	r := u.session(bases)
	b := r.base()
	if b.Files == before.Files {
		t.Error("it has the base of a commit that was taken back")
	}
	dir := filepath.Join(r.state, "clone")
	if _, err := r.overlays().CloneOver(t.Context(), b, dir); err != nil {
		t.Fatal(err)
	}
	if out, err := u.try("--git-dir", filepath.Join(dir, ".git"), "cat-file", "-e", secret); err == nil {
		t.Errorf("the clone has the object that was taken back: %s", out)
	}
}

// P-03: a history may be larger than any index that is read.
func TestACloneOverABaseHasItsPacksWhateverTheirSize(t *testing.T) {
	t.Parallel()
	r := withFiles(t, map[string]string{"a.txt": "a\n"}).session(filepath.Join(t.TempDir(), "bases"))
	b := r.base()
	size := int64(testpeer.Size(1<<20, 1<<30+1))
	pack := filepath.Join(filepath.Dir(b.Files), "git/objects/pack/large.pack")
	if err := errors.Join(os.WriteFile(pack, nil, 0o600), os.Truncate(pack, size)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.state, "clone")
	if _, err := r.overlays().CloneOver(t.Context(), b, dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, ".git/objects/pack/large.pack")); err != nil || info.Size() != size {
		t.Errorf("have %v, %v", info, err)
	}
}

// P-03: git inside sees an unchanged work tree by the files' sizes and times alone.
func TestGitReadsNoFileOfAnUntouchedClone(t *testing.T) {
	t.Parallel()
	if !overBases(t) {
		t.Skip("the clone of the other way is another's")
	}
	r := open(t, withFiles(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"}))
	cmd := exec.CommandContext(t.Context(), "git", "diff-files", "--quiet") // it asks no file what it holds
	cmd.Dir, cmd.Env = r.work, gitEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Bases that no session uses go when they are too many; one in use stays.
func TestBasesAreRemovedWhenTheyAreTooMany(t *testing.T) {
	t.Parallel()
	bases := filepath.Join(t.TempDir(), "bases")
	held := withFiles(t, map[string]string{"a": "held\n"}).session(bases).base()
	for i := range 9 {
		r := withFiles(t, map[string]string{"a": strings.Repeat("x", i+1)}).session(bases)
		b, err := r.overlays().OpenBase(t.Context(), bases)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
		older := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(filepath.Join(filepath.Dir(b.Files), "seal.json"), older, older); err != nil {
			t.Fatal(err)
		}
	}
	withFiles(t, map[string]string{"a": "last\n"}).session(bases).base()
	kept, err := filepath.Glob(filepath.Join(bases, "*", "files"))
	if err != nil || len(kept) > 9 {
		t.Errorf("have %d bases, %v", len(kept), err)
	}
	if err := held.Whole(t.Context()); err != nil {
		t.Error(err)
	}
}

// Issue 12: a full disk in the middle leaves no base that passes for one, and the
// user's repository as it was.
func TestABaseThatDoesNotFitIsNone(t *testing.T) {
	t.Parallel()
	if !overBases(t) || os.Geteuid() != 0 {
		t.Skip("a small disk is mounted by root, in mounts of its own")
	}
	u := withFiles(t, map[string]string{"a": strings.Repeat("a\n", 1<<20)})
	before := u.fingerprint()
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	r := &run{user: u, state: filepath.Join(small, "state"), baseDir: filepath.Join(small, "bases")}
	r.reopen()
	for range 2 {
		if b, err := r.overlays().OpenBase(t.Context(), r.bases()); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("have %v, %v", b, err)
		}
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, r.base().Files), map[string]string{"a": strings.Repeat("a\n", 1<<20)})
	if u.fingerprint() != before {
		t.Error("the user's repository changed")
	}
}

// Issue 12: the user collects garbage while a session works over a base.
func TestABaseSurvivesTheUsersGarbageCollection(t *testing.T) {
	t.Parallel()
	r := open(t, withFiles(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"}))
	r.git("repack", "-a", "-d", "-q")
	r.git("gc", "-q", "--prune=now")
	r.agent(map[string]string{"a.txt": "after\n"})
	r.agentRemoves("d")
	if _, _, err := r.landAll(); err != nil {
		t.Fatal(err)
	}
	if have := r.git("show", "HEAD:a.txt"); have != "after" {
		t.Errorf("have %q", have)
	}
	sameFiles(t, files(t, r.dir), map[string]string{"a.txt": "after\n"})
}
