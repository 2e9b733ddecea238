package repo_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/repo"
)

// M-13: with a direct bind, what an agent left for the host's tools to run is named.
func TestWhatAnAgentPlantedIsFoundByItsTimeOfChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".envrc", "old/.git/config", "Makefile", "node_modules/a/package.json", "fixture/HEAD", "fixture/refs/x", "fixture/objects/x"} {
		write(name)
	}
	info, err := os.Stat(filepath.Join(dir, "fixture"))
	if err != nil {
		t.Fatal(err)
	}
	start := nextTick(t, dir, info.ModTime())
	for _, name := range []string{
		"Makefile", "src/.vscode/tasks.json", "sub/.git/hooks/pre-commit", "bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x",
		"-rf", "main.go", "node_modules/b/package.json", ".git/config",
	} {
		write(name)
	}
	for link, target := range map[string]string{"out": "/etc/passwd", "in": "main.go"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "README"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "Makefile"), long, long); err != nil {
		t.Fatal(err)
	}
	found, more, err := repo.Since(dir, start)
	if err != nil || more != 0 {
		t.Fatal(err, more)
	}
	var have []string
	for _, f := range found {
		have = append(have, f.Path)
		if f.Reason == "" {
			t.Errorf("%s without a reason", f.Path)
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	want := []string{
		"-rf", "Makefile", "README", "bare", "node_modules/", "out", "src/.vscode/tasks.json", "sub/.git", "sub/.git/hooks", "sub/.git/hooks/pre-commit",
	}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

// nextTick waits until the file system's clock has moved on, and gives its time.
func nextTick(t *testing.T, dir string, from time.Time) time.Time {
	t.Helper()
	name := filepath.Join(dir, "tick")
	for {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().After(from.Add(time.Millisecond)) {
			return info.ModTime()
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAFolderThatIsGoneIsAnError(t *testing.T) {
	if _, _, err := repo.Since(filepath.Join(t.TempDir(), "gone"), time.Now()); err == nil {
		t.Error("no error")
	}
}

// M-13: ways to change what the host's tools obey without touching a file by its name.
func TestWhatIsPlantedInARoundaboutWayIsFound(t *testing.T) {
	bare := []string{"HEAD", "config", "objects/info/packs", "refs/heads/x"}
	below := func(dir string, names ...string) (all []string) {
		for _, name := range names {
			all = append(all, dir+"/"+name)
		}
		return all
	}
	for name, c := range map[string]struct {
		before []string
		act    func(in func(string) string) error
		want   string
	}{
		"a folder moved to a name that matters": {[]string{"conf/config.toml"}, func(in func(string) string) error {
			return os.Rename(in("conf"), in(".cargo"))
		}, ".cargo/config.toml"},
		"a folder moved to a name that matters, below": {[]string{"lib/conf/config.toml"}, func(in func(string) string) error {
			return os.Rename(in("lib/conf"), in("lib/.helix"))
		}, "lib/.helix/config.toml"},
		"a link of a name that matters, to a folder that was there": {[]string{"lib/conf/settings.json"}, func(in func(string) string) error {
			return os.Symlink("conf", in("lib/.claude"))
		}, "lib/.claude"},
		"what a link of such a name leads to": {[]string{"docs/guide.md", "CLAUDE.md -> docs/guide.md"}, func(in func(string) string) error {
			return os.WriteFile(in("docs/guide.md"), []byte("y"), 0o600)
		}, "docs/guide.md"},
		"what a link of a link leads to": {[]string{"docs/guide.md", "b -> docs/guide.md", "AGENTS.md -> b"}, func(in func(string) string) error {
			return os.WriteFile(in("docs/guide.md"), []byte("y"), 0o600)
		}, "docs/guide.md"},
		"deep in a folder that a link of such a name leads to": {[]string{"conf/a/b/x", ".vscode -> conf"}, func(in func(string) string) error {
			return os.WriteFile(in("conf/a/b/x"), []byte("y"), 0o600)
		}, "conf/"},
		"a hook in a repository without .git": {append(below("fixture", bare...), "fixture/hooks/x.sample"), func(in func(string) string) error {
			return os.WriteFile(in("fixture/hooks/post-receive"), []byte("y"), 0o600)
		}, "fixture/hooks"},
		"a hook that was there, in a repository without .git": {append(below("fixture", bare...), "fixture/hooks/update"), func(in func(string) string) error {
			return os.WriteFile(in("fixture/hooks/update"), []byte("y"), 0o600)
		}, "fixture/hooks/update"},
		"the configuration of a nested repository's submodule": {append(below("n/.git", bare...), below("n/.git/modules/refs", bare...)...), func(in func(string) string) error {
			return os.WriteFile(in("n/.git/modules/refs/config"), []byte("y"), 0o600)
		}, "n/.git/modules/refs/config"},
		"other objects for a nested repository": {below("n/.git", bare...), func(in func(string) string) error {
			return os.WriteFile(in("n/.git/objects/info/alternates"), []byte("y"), 0o600)
		}, "n/.git/objects/info/alternates"},
		"deep in a dependency that was there": {[]string{"node_modules/a/lib/deep/index.js"}, func(in func(string) string) error {
			return os.WriteFile(in("node_modules/a/lib/deep/index.js"), []byte("y"), 0o600)
		}, "node_modules/"},
		"compiled code beside its text": {[]string{"lib/__pycache__/x.cpython-312.pyc"}, func(in func(string) string) error {
			return os.WriteFile(in("lib/__pycache__/x.cpython-312.pyc"), []byte("y"), 0o600)
		}, "lib/__pycache__/"},
		"a hook where the configuration says that hooks are": {configured("[core]\n\thooksPath = tools/hooks\n", "tools/hooks/pre-push"), func(in func(string) string) error {
			return os.WriteFile(in("tools/hooks/pre-commit"), []byte("y"), 0o600)
		}, "tools/hooks/"},
		"a hook in a folder that was not there": {configured("[core] hookspath = \"tools/hooks\"\n"), func(in func(string) string) error {
			return errors.Join(os.MkdirAll(in("tools/hooks"), 0o700), os.WriteFile(in("tools/hooks/pre-commit"), []byte("y"), 0o600))
		}, "tools/hooks/"},
		"a filter's program": {configured("[filter \"x\"]\n\tclean = sh -c './tools/clean.sh %f'\n", "tools/clean.sh"), func(in func(string) string) error {
			return os.WriteFile(in("tools/clean.sh"), []byte("y"), 0o600)
		}, "tools/clean.sh"},
		"an included configuration": {configured("[include]\n\tpath = ../tools/git.conf\n", "tools/git.conf"), func(in func(string) string) error {
			return os.WriteFile(in("tools/git.conf"), []byte("y"), 0o600)
		}, "tools/git.conf"},
		"the top made a repository without .git": {[]string{"main.go"}, func(in func(string) string) error {
			return errors.Join(os.Mkdir(in("objects"), 0o700), os.Mkdir(in("refs"), 0o700), os.WriteFile(in("HEAD"), nil, 0o600), os.WriteFile(in("config"), nil, 0o600))
		}, "HEAD"},
		"a link out of the project, by way of a link": {[]string{"x/y/z/d -> ../../../a", "a/b"}, func(in func(string) string) error {
			return os.Symlink("x/y/z/d/../../victim", in("notes.txt"))
		}, "notes.txt"},
		"a link to git's own folder, in another case": {[]string{"main.go"}, func(in func(string) string) error {
			return os.Symlink(".GIT/hooks", in("notes"))
		}, "notes"},
		"an empty folder that a star makes an option of": {[]string{"lib/main.go"}, func(in func(string) string) error {
			return os.Mkdir(in("lib/--checkpoint-action=exec=sh x.sh"), 0o700)
		}, "lib/--checkpoint-action=exec=sh x.sh"},
		"an empty folder that a terminal obeys": {[]string{"main.go"}, func(in func(string) string) error {
			return os.Mkdir(in("x\x1b]0;y\a"), 0o700)
		}, "x\x1b]0;y\a"},
		"a file whose name a shell runs": {[]string{"main.go"}, func(in func(string) string) error {
			return os.WriteFile(in("a$(touch x).txt"), nil, 0o600)
		}, "a$(touch x).txt"},
		"an empty folder that rm takes for the home": {[]string{"main.go"}, func(in func(string) string) error {
			return os.Mkdir(in("~"), 0o700)
		}, "~"},
		"a folder moved with such a file in it": {[]string{"testdata/x/Makefile", "app/main.go"}, func(in func(string) string) error {
			return os.Rename(in("testdata/x"), in("app/x"))
		}, "app/x/Makefile"},
		"deep in a folder that was moved": {[]string{"testdata/x/a/b/.vscode/tasks.json"}, func(in func(string) string) error {
			return os.Rename(in("testdata"), in("app"))
		}, "app/x/a/b/.vscode/tasks.json"},
		"dependencies in a folder that was moved": {[]string{"testdata/x/node_modules/a/index.js"}, func(in func(string) string) error {
			return os.Rename(in("testdata/x"), in("app"))
		}, "app/node_modules/"},
		"dependencies by a link": {[]string{"testdata/x/main.go"}, func(in func(string) string) error {
			return os.Symlink("testdata", in("vendor"))
		}, "vendor"},
		"a library beside the text that it is imported before": {[]string{"lib/util.py"}, func(in func(string) string) error {
			return os.WriteFile(in("lib/util.cpython-312-x86_64-linux-gnu.so"), nil, 0o600)
		}, "lib/util.cpython-312-x86_64-linux-gnu.so"},
		"a submodule's own command to update": {configured("[submodule \"x\"]\n\tupdate = !./tools/up.sh\n", "tools/up.sh"), func(in func(string) string) error {
			return os.WriteFile(in("tools/up.sh"), []byte("y"), 0o600)
		}, "tools/up.sh"},
		"a file of attributes": {configured("[core]\n\tattributesFile = attributes\n"), func(in func(string) string) error {
			return os.WriteFile(in("attributes"), []byte("y"), 0o600)
		}, "attributes"},
		"beside folders within folders": {[]string{"main.go"}, func(in func(string) string) error {
			return errors.Join(os.MkdirAll(in(strings.Repeat("d/", repo.MaxDepth+2)), 0o700), os.WriteFile(in("Makefile"), nil, 0o600))
		}, "Makefile"},
		"a folder of a tool that nobody knows": {[]string{".later/a/hooks.toml"}, func(in func(string) string) error {
			return os.WriteFile(in(".later/a/hooks.toml"), []byte("y"), 0o600)
		}, ".later/"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			layOut(t, dir, c.before)
			now, err := os.Lstat(in(strings.Fields(c.before[len(c.before)-1])[0]))
			if err != nil {
				t.Fatal(err)
			}
			start := nextTick(t, dir, now.ModTime())
			if found, _, err := repo.Since(dir, start.Add(time.Hour)); err != nil || len(found) != 0 {
				t.Fatal(found, err)
			}
			if err := c.act(in); err != nil {
				t.Fatal(err)
			}
			found, _, err := repo.Since(dir, start)
			if err != nil && !errors.Is(err, repo.ErrTooBig) || !slices.ContainsFunc(found, func(p repo.Planted) bool { return p.Path == c.want }) {
				t.Errorf("found %+v, %v; want %s", found, err, c.want)
			}
		})
	}
}

// Everyday work leaves nothing to name.
func TestOrdinaryWorkPlantsNothing(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	layOut(t, dir, configured("[core]\n\tbare = false\n", "src/main.go", "src/Makefile", "src/pkg/a.py", "old/b.go", "sub/.env", "sub/node_modules/a/x.js", "lib -> src"))
	now, err := os.Lstat(in("lib"))
	if err != nil {
		t.Fatal(err)
	}
	start := nextTick(t, dir, now.ModTime())
	layOut(t, dir, []string{
		"src/new.go", "src/pkg/profile.py", "docs/guide.md", "app/[id]/page.tsx", "app/(group)/$user.tsx", "app/@modal/(.)photo/x.tsx", "sub/x.js", "a & b.txt", "data.json", "api/config.yaml",
		"target/debug/deps/libx.so", "target/debug/x", "README.md", "it's ~ me.txt", "日本語　名.txt", "Screenshot 3.00\u202fPM.png", "cfg/app.toml", "docs/conf/a.txt", "testdata/HEAD", "bin.exe.txt", "❤️.txt",
		"docs/link -> ../src/main.go", "docs/here -> ./guide.md", "src/up -> ../../" + filepath.Base(dir) + "/src",
	})
	if err := errors.Join(os.Rename(in("old"), in("new")), os.Remove(in("src/up")), os.Chmod(in("src"), 0o750)); err != nil { //nolint:gosec // the project's own
		t.Fatal(err)
	}
	if found, more, err := repo.Since(dir, start); err != nil || len(found) != 0 || more != 0 {
		t.Errorf("found %+v and %d more, %v", found, more, err)
	}
}

// A folder whose mode alone changed has moved nowhere.
func TestAChangeOfModeMovesNothing(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	layOut(t, dir, []string{"app/src/Makefile", "app/src/a/.vscode/tasks.json", "app/src/node_modules/a/x.js", "other/x"})
	now, err := os.Lstat(in("other/x"))
	if err != nil {
		t.Fatal(err)
	}
	start := nextTick(t, dir, now.ModTime())
	if err := os.Chmod(in("app/src"), 0o750); err != nil { //nolint:gosec // the project's own
		t.Fatal(err)
	}
	if found, more, err := repo.Since(dir, start); err != nil || len(found) != 0 || more != 0 {
		t.Errorf("found %+v and %d more, %v", found, more, err)
	}
	if err := os.Rename(in("app/src"), in("app/lib")); err != nil {
		t.Fatal(err)
	}
	if found, _, err := repo.Since(dir, start); err != nil || !slices.ContainsFunc(found, func(p repo.Planted) bool { return p.Path == "app/lib/Makefile" }) {
		t.Errorf("found %+v, %v", found, err)
	}
}

// configured is a repository with a configuration, and other files.
func configured(config string, others ...string) []string {
	return append([]string{".git/HEAD", ".git/objects/x", ".git/refs/x", ".git/config = " + config}, others...)
}

// layOut makes files, with "name = text", and links of "name -> target".
func layOut(t *testing.T, dir string, names []string) {
	t.Helper()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		name, text, _ := strings.Cut(name, " = ")
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(full, []byte(text), 0o600)
		if link {
			_ = os.Remove(full)
			err = os.Symlink(target, full)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// M-13: a folder that its owner may enter but not list still works for whoever
// knows a name in it.
func TestAFolderThatCannotBeListedIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root lists every folder")
	}
	dir := t.TempDir()
	layOut(t, dir, []string{"lib/.cargo/config.toml", "main.go"})
	start := nextTick(t, dir, time.Now())
	if err := os.Chmod(filepath.Join(dir, "lib"), 0o311); err != nil { //nolint:gosec // what an agent does
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "lib"), 0o700) }) //nolint:gosec // so that it can be removed
	found, _, err := repo.Since(dir, start)
	if err != nil || len(found) != 1 || found[0].Path != "lib" {
		t.Errorf("found %+v, %v", found, err)
	}
}

// M-13: compiled code is named once, however many folders of it a test run left, so
// that nothing else is hidden by it.
func TestCompiledCodeIsNamedOnce(t *testing.T) {
	dir, start := t.TempDir(), time.Now().Add(-time.Second)
	for i := range repo.MaxListed + 1 {
		cache := filepath.Join(dir, fmt.Sprintf("a%03d", i), "__pycache__")
		if err := errors.Join(os.MkdirAll(cache, 0o700), os.WriteFile(filepath.Join(cache, "x.pyc"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("x:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, more, err := repo.Since(dir, start)
	if err != nil || len(found) != 2 || more != repo.MaxListed {
		t.Errorf("found %+v and %d more, %v", found, more, err)
	}
}

// M-06: which folder of the project is its repository; none that is not below it.
func TestTheFolderOfARepositoryIsFoundBelowItsProject(t *testing.T) {
	for pointer, want := range map[string]string{
		"gitdir: meta\n": "meta", "gitdir: a/b": "a/b", "gitdir: link": "meta", "gitdir: meta/../a/b": "a/b",
		"gitdir: .\n": "", "gitdir: ..": "", "gitdir: /": "", "gitdir: nothing": "", "gitdir: out": "", "": "", "meta": "",
	} {
		top := t.TempDir()
		for _, dir := range []string{"meta", "a/b"} {
			if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(os.Symlink("meta", filepath.Join(top, "link")), os.Symlink("/usr", filepath.Join(top, "out")), os.WriteFile(filepath.Join(top, ".git"), []byte(pointer), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if have := repo.GitFolder(top); have != want {
			t.Errorf("%q: have %q, want %q", pointer, have, want)
		}
	}
	if have := repo.GitFolder(t.TempDir()); have != "" {
		t.Errorf("without one: have %q", have)
	}
}

// M-06, M-13: the .git of each submodule is found, by no way but plain folders.
func TestSubmodulesAreFoundByPlainFoldersOnly(t *testing.T) {
	top, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		".gitmodules": "[submodule \"a\"]\n\tpath = lib/a\n\turl = ../a\n[submodule \"b\"]\n\tPATH=\"b c\"\n[submodule \"d\"]\n\tpath = d\n" +
			"\tpath = ../x\n\tpath = /etc\n\tpath = .\n\tpath = .git\n\tpath = a//b\n\tpath =\n\tpath\n\tpath = link\n\tpath = absent\n\tpath = lib/a\n\tpath = file\n",
		"lib/a/.git": "gitdir: ../../.git/modules/a\n", "lib/a/.gitmodules": "[submodule \"n\"]\n path = n\n", "lib/a/n/.git": "gitdir: x\n",
		"b c/.git/HEAD": "ref: refs/heads/main\n", "d/file": "", "file": "",
	} {
		at := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(outside, ".git"), nil, 0o600), os.Symlink(outside, filepath.Join(top, "link"))); err != nil {
		t.Fatal(err)
	}
	want := []string{"lib/a/.git", "b c/.git", "lib/a/n/.git"}
	if have := repo.Submodules(top); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	if have := repo.Submodules(t.TempDir()); have != nil {
		t.Errorf("have %q where there is none", have)
	}
}
