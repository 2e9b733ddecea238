package confine_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/confine"
	"github.com/nacre-dev/nacre/internal/gate"
)

const target = "/workspace"

func plant(t interface {
	Helper()
	Fatal(...any)
}, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func atoms(t interface {
	Helper()
	Fatal(...any)
}, names ...string) []atom.Atom {
	t.Helper()
	var list []atom.Atom
	for _, name := range names {
		a, err := atom.Library{}.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// writable is what the mounts make of a path, the last one that covers it.
func writable(l confine.Layer, name string) bool {
	state := !l.ReadOnly
	for _, m := range l.Mounts {
		at := strings.TrimPrefix(strings.TrimPrefix(m.Target, target), "/")
		if at == "" || name == at || strings.HasPrefix(name, at+"/") {
			state = m.Kind == nacre.BindReadWrite
		}
	}
	return state
}

// S-04: a whitelist becomes mounts: within it files can be written, be they
// there or not, and no others.
func TestAWhitelistBecomesMounts(t *testing.T) {
	t.Parallel()
	all := []string{"go.mod", "main.go", "pkg/x/x.go", "pkg/x/deep/y.go", "pkg/x/keys/id", "pkg/other/z.go", "docs/a.md", "docs/b.txt"}
	for name, c := range map[string]struct {
		atoms    []string
		task     atom.Parameters
		can      []string
		cannot   []string
		widened  string
		makes    []string
		readOnly bool
	}{
		"a folder with all in it": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"pkg/x/**"}},
			[]string{"pkg/x/x.go", "pkg/x/deep/y.go", "pkg/x/new.go", "pkg/x/new/new.go"}, []string{"go.mod", "pkg/other/z.go", "pkg/new.go", "new.go", "pkg"}, "", []string{"pkg/x"}, true,
		},
		"a folder that is not there yet": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"cmd/new/**"}},
			[]string{"cmd/new/main.go"}, []string{"cmd/main.go", "main.go"}, "", []string{"cmd/new"}, true,
		},
		"one file": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"docs/a.md"}},
			[]string{"docs/a.md"}, []string{"docs/b.txt", "go.mod"}, "new files can be written in all of docs", []string{"docs"}, true,
		},
		"one file at the top": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"main.go"}},
			[]string{"main.go"}, []string{"docs/b.txt", "go.mod", "pkg/x/x.go", "pkg/new"}, "the project's own folder", []string{""}, true,
		},
		"files of one kind": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"docs/*.md"}},
			[]string{"docs/a.md", "docs/new.md"}, []string{"docs/b.txt"}, "new files", []string{"docs"}, true,
		},
		"files of one kind at any depth": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"**/*.go"}},
			[]string{"main.go", "pkg/x/x.go", "pkg/x/deep/new.go"}, []string{"go.mod", "docs/b.txt", "pkg/x/keys/id"}, "new files", []string{""}, true,
		},
		"an empty list": {
			[]string{"scope::files-whitelist"}, atom.Parameters{Whitelist: []string{}},
			nil, all, "", nil, true,
		},
		"a denylist within": {
			[]string{"scope::files-whitelist", "scope::files-denylist"},
			atom.Parameters{Whitelist: []string{"pkg/**"}, Denylist: []string{"pkg/x/keys/**", "pkg/x/x.go"}},
			[]string{"pkg/x/deep/y.go", "pkg/other/z.go"}, []string{"pkg/x/keys/id", "pkg/x/keys/new", "pkg/x/x.go"}, "", []string{"pkg"}, true,
		},
		"a denylist alone": {
			[]string{"scope::files-denylist"}, atom.Parameters{Denylist: []string{"pkg/x/**", ".env"}},
			[]string{"main.go", "pkg/other/z.go"}, []string{"pkg/x/x.go", "pkg/x/new.go"}, ".env", nil, false,
		},
		"no change of dependencies": {
			[]string{"safety::no-dep-bump"}, atom.Parameters{}, []string{"main.go"}, []string{"go.mod"}, "refused on return", nil, false,
		},
		"changes of dependencies that the task allows": {
			[]string{"safety::no-dep-bump"}, atom.Parameters{AllowDepBump: true}, []string{"main.go", "go.mod"}, nil, "", nil, false,
		},
		"a role that reads only": {
			[]string{"tools::deny-tools", "scope::files-whitelist"}, atom.Parameters{Whitelist: []string{"pkg/**"}}, nil, all, "", nil, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			plant(t, dir, all...)
			l, err := confine.Of(atoms(t, c.atoms...), c.task, dir, target, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range c.can {
				if !writable(l, name) {
					t.Errorf("%s cannot be written", name)
				}
			}
			for _, name := range c.cannot {
				if writable(l, name) {
					t.Errorf("%s can be written", name)
				}
			}
			if have := strings.Join(l.Widened, "\n"); !strings.Contains(have, c.widened) || c.widened == "" && have != "" {
				t.Errorf("widened %q, want %q", have, c.widened)
			}
			if l.ReadOnly != c.readOnly || !slices.Equal(l.Make, c.makes) {
				t.Errorf("have %v %q", l.ReadOnly, l.Make)
			}
		})
	}
}

// S-06: what is no folder of the project is not opened, wherever a link leads.
func TestALinkIsNotOpened(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"link/**", "link/a", "link/b/**", "file/**", ".git/**", "../**", "../x", "/etc/**"} {
		dir := t.TempDir()
		plant(t, dir, "file", "a/b", ".git/config")
		if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		l, err := confine.Of(atoms(t, "scope::files-whitelist"), atom.Parameters{Whitelist: []string{glob}}, dir, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Mounts) > 0 || len(l.Make) > 0 || len(l.Widened) == 0 {
			t.Errorf("%s: have %+v", glob, l)
		}
	}
}

// S-04: programs that an atom hides are masked wherever they are looked up.
func TestHiddenProgramsAreMasked(t *testing.T) {
	t.Parallel()
	l, err := confine.Of(atoms(t, "policy::no-git-ops"), atom.Parameters{}, t.TempDir(), target, []string{"/usr/bin", "/opt/bin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/usr/bin/git", "/opt/bin/gh"} {
		if !slices.ContainsFunc(l.Mounts, func(m nacre.Mount) bool { return m.Kind == nacre.Mask && m.Optional && m.Target == want }) {
			t.Errorf("%s is not masked: %+v", want, l.Mounts)
		}
	}
}

// S-04, S-06: what a gate refuses to write, the mounts do not let be written
// either, of everything that is there; and the other way round.
func TestMountsAndGatesAgreeOnWhatIsThere(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"a", "b", "cc", "x.go", "y.md"})
	name := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/") })
	glob := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "cc", "*", "**", "*.go", "x.go", "?"}), 1, 3).Draw(t, "glob"), "/")
	})
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		for _, name := range rapid.SliceOfN(name, 0, 12).Draw(t, "names") {
			path := filepath.Join(dir, name)
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				_ = os.WriteFile(path, nil, 0o600) // a folder of that name may be there
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		task := atom.Parameters{Whitelist: rapid.SliceOfN(glob, 0, 3).Draw(t, "whitelist"), Denylist: rapid.SliceOfN(glob, 0, 2).Draw(t, "denylist")}
		l, err := confine.Of(atoms(t, "scope::files-whitelist", "scope::files-denylist"), task, dir, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		rule := gate.Rule{Kind: gate.FilesWhitelist, Whitelist: task.Whitelist, Denylist: task.Denylist}
		err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, at)
			if err != nil {
				return err
			}
			want := rule.Place(name, gate.World{Project: "/project"}).Allowed
			if have := writable(l, name); have != want {
				t.Fatalf("%s: the mounts say %v, the gate %v: %+v", name, have, want, l)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// S-04: a whitelist that opens the project does not open its git folder.
func TestTheGitFolderIsNeverOpened(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"**", "*", "*.md", ".", "**/.git/**", "pkg/../**", ".git/**", ".git/config"} {
		dir := t.TempDir()
		plant(t, dir, ".git/config", "a.md", "pkg/x.go")
		layer, err := confine.Of(atoms(t, "scope::files-whitelist"), atom.Parameters{Whitelist: []string{glob}}, dir, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if writable(layer, ".git/config") {
			t.Errorf("%s: .git/config can be written: %+v", glob, layer.Mounts)
		}
	}
}
