package repo_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/repo"
)

// S-12: an agent that works in the person's own files swaps a folder and a link to .git, as fast as
// the kernel can, while other work lands. Nothing of that work comes into .git.
func TestAFolderSwappedForALinkWhileWorkLands(t *testing.T) {
	t.Parallel()
	work := map[string]string{}
	for i := range 300 {
		work[fmt.Sprintf("sub/hooks/planted-%03d", i)] = "#!/bin/sh\n"
	}
	r, m := worked(t, project, work)
	u := r.user
	u.write(map[string]string{"sub": "-> .git", "other/hooks/mine": "mine\n"})
	sub, other := filepath.Join(u.dir, "sub"), filepath.Join(u.dir, "other")
	if err := unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	// Nothing of the work tree is looked at before a landing has its journal, and what only begins is not raced with.
	var stop func()
	swapping := func() {
		if stop == nil {
			stop = swap(sub, other)
		}
	}
	r.project.Reached(func(step string) {
		if step == "journal" {
			swapping()
		}
	})
	var err error
	for range 20 { // it may stay on a branch of its own, or be broken off and completed
		if _, broken := os.Lstat(filepath.Join(r.state, "landing.json")); broken == nil {
			swapping()
		}
		var landed repo.Landed
		landed, err = r.land(m.Commit, r.project.Base)
		if stop != nil {
			stop()
			stop = nil
		}
		if err == nil && landed.Ref == "refs/heads/main" {
			break
		}
	}
	r.project.Reached(func(string) {})
	if info, lost := os.Lstat(sub); lost == nil && info.Mode().Type() == fs.ModeSymlink { // which one stays is chance
		if err := unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		if _, err = r.land(m.Commit, r.project.Base); err != nil {
			t.Errorf("nothing has landed, so nothing was tried: %v", err)
		}
	}
	err = filepath.WalkDir(filepath.Join(u.dir, ".git"), func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, "planted-") || strings.HasPrefix(name, ".nacre-") {
			t.Errorf("the landing wrote %s", path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// U-20: an agent that works in the person's own files swaps one of them for a link to what is in .git
// while another run reads their uncommitted edits. Nothing of .git is among those.
func TestAFileSwappedForALinkWhileEditsAreRead(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	u.write(map[string]string{".git/credential": "SECRET\n", "dir/credential": "mine\n", "to": "-> .git", "file": "mine\n", "link": "-> .git/credential"})
	r := u.session("")
	head := r.project.Base
	edits := func() error {
		r.project.Base = head
		return repo.WithEdits(t.Context(), r.project)
	}
	check := func() {
		dir := t.TempDir()
		if err := r.project.Checkout(t.Context(), repo.Tree(r.project.Base), dir); err != nil {
			t.Error(err)
		}
		for name, text := range files(t, dir) {
			if strings.Contains(text, "SECRET") {
				t.Errorf("%s holds what is in .git", name)
			}
		}
	}
	for range 20 {
		stopFolder, stopFile := swap(filepath.Join(u.dir, "dir"), filepath.Join(u.dir, "to")), swap(filepath.Join(u.dir, "file"), filepath.Join(u.dir, "link"))
		err := edits() // it says that something changed while it was read
		stopFolder()
		stopFile()
		if err == nil {
			check()
		}
	}
	if err := edits(); err != nil {
		t.Errorf("no edits can be read, so nothing was tried: %v", err)
	}
	check()
}

// swap exchanges two paths as fast as the kernel can, until it is stopped.
func swap(one, other string) (stop func()) {
	ended := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() { close(ended); swapping.Wait() }
}
