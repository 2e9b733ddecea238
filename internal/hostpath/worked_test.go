package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/registry"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// U-01, U-22: a project of agents stays known for as long as it may be there, and is forgotten once its folder is gone.
func TestProjectsThatAreGoneAreForgotten(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	paths, err := registry.NamedPaths(getenv)
	check(t, err)
	check(t, os.MkdirAll(paths.State, 0o700))
	for _, name := range []string{"here", "gone", "disk/project", "repository/folder"} {
		check(t, os.MkdirAll(filepath.Join(top, name), 0o700))
	}
	check(t, os.Mkdir(filepath.Join(top, "repository/.git"), 0o700))
	for _, name := range []string{"here", "gone", "disk/project", "repository/folder"} {
		check(t, hostpath.Work(paths.State, filepath.Join(top, name)))
		check(t, hostpath.Work(paths.State, filepath.Join(top, name)))
	}
	check(t, hostpath.Work(paths.State, ""))
	check(t, os.Remove(filepath.Join(top, "gone")))
	check(t, os.RemoveAll(filepath.Join(top, "disk"))) // as one that is not mounted
	check(t, hostpath.ForgetWorked(paths.State))
	check(t, os.MkdirAll(filepath.Join(top, "gone"), 0o700))
	for path, want := range map[string]bool{
		"here": true, "here/bin/git": true, "gone/git": false, "disk/project/bin": true, "disk/other": false, "repository/folder/bin": true, "repository/bin": true, "repository": true, "": false,
	} {
		if have := hostpath.Filled(getenv, filepath.Join(top, path)); have != want {
			t.Errorf("%q: have %v, want %v", path, have, want)
		}
	}
}

// U-01: what an earlier nacre wrote of a project is kept, and says which it is once an agent works there again.
func TestAMarkWithoutItsProjectIsKept(t *testing.T) {
	home, project := t.TempDir(), filepath.Join(t.TempDir(), "project")
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	paths, err := registry.NamedPaths(getenv)
	check(t, err)
	check(t, os.MkdirAll(paths.State, 0o700))
	check(t, hostpath.ForgetWorked(paths.State))
	check(t, hostpath.Work(paths.State, project))
	marks, err := filepath.Glob(filepath.Join(paths.State, "worked/*"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	check(t, os.Truncate(marks[0], 0))
	check(t, hostpath.ForgetWorked(paths.State))
	if !hostpath.Filled(getenv, project) {
		t.Error("it was forgotten")
	}
	check(t, hostpath.Work(paths.State, project))
	check(t, hostpath.ForgetWorked(paths.State))
	if hostpath.Filled(getenv, project) {
		t.Error("it is not forgotten")
	}
}

// U-01, U-04: a home in which an agent worked holds the person's own programs.
func TestAHomeIsNoProjectOfAgents(t *testing.T) {
	home := t.TempDir()
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	paths, err := registry.NamedPaths(getenv)
	check(t, err)
	check(t, os.MkdirAll(paths.State, 0o700))
	check(t, hostpath.Work(paths.State, home))
	check(t, hostpath.Work(paths.State, filepath.Join(home, "src")))
	for path, want := range map[string]bool{"bin": false, "src/bin": true, "": false} {
		if have := hostpath.Filled(getenv, filepath.Join(home, path)); have != want {
			t.Errorf("%q: have %v, want %v", path, have, want)
		}
	}
}
