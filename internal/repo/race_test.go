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
	u := withFiles(t, project)
	r := open(t, u)
	work := map[string]string{}
	for i := range 300 {
		work[fmt.Sprintf("sub/hooks/planted-%03d", i)] = "#!/bin/sh\n"
	}
	r.agent(work)
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	u.write(map[string]string{"sub": "-> .git", "other/hooks/mine": "mine\n"})
	sub, other := filepath.Join(u.dir, "sub"), filepath.Join(u.dir, "other")
	if err := unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	stop := swap(sub, other)
	var err error
	for range 20 { // it may stay on a branch of its own, or be broken off and completed
		var landed repo.Landed
		if landed, err = r.land(m.Commit, r.project.Base); err == nil && landed.Ref == "refs/heads/main" {
			break
		}
	}
	stop()
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
	read := func() error {
		r := &run{user: u, state: t.TempDir()}
		r.reopen()
		if err := repo.WithEdits(t.Context(), r.project); err != nil {
			return err
		}
		r.cloneTo(filepath.Join(r.state, "clone"))
		for name, text := range files(t, r.work) {
			if strings.Contains(text, "SECRET") {
				t.Errorf("%s holds what is in .git", name)
			}
		}
		return nil
	}
	stopFolder, stopFile := swap(filepath.Join(u.dir, "dir"), filepath.Join(u.dir, "to")), swap(filepath.Join(u.dir, "file"), filepath.Join(u.dir, "link"))
	for range 20 {
		_ = read() // it says that something changed while it was read
	}
	stopFolder()
	stopFile()
	if err := read(); err != nil {
		t.Errorf("no edits can be read, so nothing was tried: %v", err)
	}
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
