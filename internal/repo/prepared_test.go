package repo_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// preparedIn is the folder of what many tests begin with.
var preparedIn string

// runPrepared runs the tests with a folder for what many of them begin with.
func runPrepared(m *testing.M) int {
	dir, err := os.MkdirTemp("", "prepared-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	preparedIn = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepared is a repository that is made once, and copied by each test that begins with it: to make it
// takes several processes of git. Nothing in it changes once it is made.
type prepared struct {
	once sync.Once
	dir  string
	// made tells that the making succeeded.
	made bool
	// base is what the repository of work was opened at, and work what came of it.
	base repo.Commit
	work repo.Merged
}

var allPrepared sync.Map

// prepare is the repository of this name, which the first test that asks for it makes.
func prepare(t testing.TB, name string, fill func(u *user)) *prepared {
	t.Helper()
	known, _ := allPrepared.LoadOrStore(name, &prepared{})
	p := known.(*prepared)
	p.make(t, func() { fill(&user{t: t, dir: p.project()}) })
	return p
}

func (p *prepared) make(t testing.TB, fill func()) {
	t.Helper()
	p.once.Do(func() {
		dir, err := os.MkdirTemp(preparedIn, "") //nolint:usetesting // it outlives the test that makes it
		if err != nil {
			t.Fatal(err)
		}
		p.dir = dir
		if err := os.Mkdir(p.project(), 0o755); err != nil {
			t.Fatal(err)
		}
		fill()
		p.made = true
	})
	if !p.made {
		t.Fatal("another test failed to make the repository that this one begins with")
	}
}

func (p *prepared) project() string { return filepath.Join(p.dir, "pro ject é") }
func (p *prepared) state() string   { return filepath.Join(p.dir, "state") }

// user is a copy of the repository.
func (p *prepared) user(t testing.TB) *user {
	t.Helper()
	u := &user{t: t, dir: filepath.Join(t.TempDir(), "pro ject é")}
	copyFolder(t, p.project(), u.dir)
	return u
}

// worked is a session on a copy of a repository, in which an agent has done its work in a clone, and the commit of
// that on its base. Landing begins there: how the clone was made is over by then. The work folder is not to be changed.
func worked(t testing.TB, base, agent map[string]string, removed ...string) (*run, repo.Merged) {
	t.Helper()
	name := fmt.Sprintf("work %q %q %q", base, agent, removed)
	known, _ := allPrepared.LoadOrStore(name, &prepared{})
	p := known.(*prepared)
	p.make(t, func() {
		copyFolder(t, withFiles(t, base).dir, p.project())
		r := &run{user: &user{t: t, dir: p.project()}, state: p.state()}
		r.reopen()
		r.copyTo(p.clone())
		r.agentRemoves(removed...)
		r.agent(agent)
		tree, _ := r.snapshot()
		p.base, p.work = r.project.Base, r.merge(tree, r.project.Base)
	})
	r := &run{user: p.user(t), state: t.TempDir(), work: p.clone()}
	copyFolder(t, p.state(), r.state)
	r.reopen()
	if r.project.Base != p.base {
		t.Fatalf("the base is %s, want %s", r.project.Base, p.base)
	}
	return r, p.work
}

func (p *prepared) clone() string { return filepath.Join(p.dir, "clone") }

// copyFolder copies a folder with modes, times and links to one that is missing or empty.
func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if e.IsDir() && rel == "." {
			return os.MkdirAll(target, 0o755) // one that is there keeps its mode
		}
		if e.Type()&fs.ModeSymlink != 0 {
			where, err := os.Readlink(name)
			return errors.Join(err, os.Symlink(where, target))
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(target, info.Mode().Perm())
		}
		data, err := os.ReadFile(name)
		return errors.Join(err, os.WriteFile(target, data, info.Mode().Perm()), os.Chtimes(target, info.ModTime(), info.ModTime()))
	})
	if err != nil {
		t.Fatal(err)
	}
}
