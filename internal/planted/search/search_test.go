package search_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/tree"
)

// since searches a folder whose .git was there before.
func since(t *testing.T, dir string, start time.Time) (found []planted.Finding, more int, err error) {
	t.Helper()
	r, err := search.Since(t.Context(), dir, search.Options{Since: start, Before: planted.Top{Git: true}, Configured: repo.Configured(dir)})
	return r.Findings, r.More, err
}

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
	found, more, err := since(t, dir, start)
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
	if _, _, err := since(t, filepath.Join(t.TempDir(), "gone"), time.Now()); err == nil {
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
		"what such a link leads to by way of a linked folder": {[]string{"docs/v2/guide.md", "docs/now -> v2", "CLAUDE.md -> docs/now/guide.md"}, func(in func(string) string) error {
			return os.WriteFile(in("docs/v2/guide.md"), []byte("y"), 0o600)
		}, "docs/v2/guide.md"},
		"another folder on the way of such a link": {[]string{"docs/v2/guide.md", "docs/v3/guide.md", "docs/now -> v2", "CLAUDE.md -> docs/now/guide.md"}, func(in func(string) string) error {
			return errors.Join(os.Remove(in("docs/now")), os.Symlink("v3", in("docs/now")))
		}, "docs/now"},
		"a folder by a name of Python's": {[]string{"lib/__init__.py"}, func(in func(string) string) error {
			return os.Symlink("lib", in("json"))
		}, "json"},
		"in a folder that has a name of Python's": {[]string{"lib/__init__.py", "json -> lib"}, func(in func(string) string) error {
			return os.WriteFile(in("lib/__init__.py"), []byte("y"), 0o600)
		}, "lib/"},
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
		"the configuration of a submodule whose name is like a folder of git's": {append(below("n/.git", bare...), below("n/.git/modules/a/logs", bare...)...), func(in func(string) string) error {
			return os.WriteFile(in("n/.git/modules/a/logs/config"), []byte("y"), 0o600)
		}, "n/.git/modules/a/logs/config"},
		"a hook of a repository without .git, for a folder that ignores case": {below("fixture", "head", "Config", "OBJECTS/x", "Refs/x", "Hooks/x.sample"), func(in func(string) string) error {
			return os.WriteFile(in("fixture/Hooks/post-receive"), []byte("y"), 0o600)
		}, "fixture/Hooks"},
		"other objects for a nested repository": {below("n/.git", bare...), func(in func(string) string) error {
			return os.WriteFile(in("n/.git/objects/info/alternates"), []byte("y"), 0o600)
		}, "n/.git/objects/info/alternates"},
		"deep in a dependency that was there": {[]string{"node_modules/a/lib/deep/index.js"}, func(in func(string) string) error {
			return os.WriteFile(in("node_modules/a/lib/deep/index.js"), []byte("y"), 0o600)
		}, "node_modules/"},
		"compiled code beside its text": {[]string{"lib/x.py", "lib/__pycache__/x.cpython-312.pyc"}, func(in func(string) string) error {
			return os.WriteFile(in("lib/__pycache__/x.cpython-312.pyc"), compiledOf(in("lib/x.py")), 0o600)
		}, "lib/__pycache__/x.cpython-312.pyc"},
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
			return errors.Join(os.MkdirAll(in(strings.Repeat("d/", 256+2)), 0o700), os.WriteFile(in("Makefile"), nil, 0o600))
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
			if found, _, err := since(t, dir, start.Add(time.Hour)); err != nil || len(found) != 0 {
				t.Fatal(found, err)
			}
			if err := c.act(in); err != nil {
				t.Fatal(err)
			}
			found, _, err := since(t, dir, start)
			if err != nil && !errors.Is(err, tree.ErrTooBig) || !slices.ContainsFunc(found, func(p planted.Finding) bool { return p.Path == c.want }) {
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
		"README.md", "it's ~ me.txt", "日本語　名.txt", "Screenshot 3.00\u202fPM.png", "cfg/app.toml", "docs/conf/a.txt", "testdata/HEAD", "bin.exe.txt", "❤️.txt",
		"docs/link -> ../src/main.go", "docs/here -> ./guide.md", "src/up -> ../../" + filepath.Base(dir) + "/src",
	})
	if err := errors.Join(os.Rename(in("old"), in("new")), os.Remove(in("src/up")), os.Chmod(in("src"), 0o750)); err != nil { //nolint:gosec // the project's own
		t.Fatal(err)
	}
	if found, more, err := since(t, dir, start); err != nil || len(found) != 0 || more != 0 {
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
	if found, more, err := since(t, dir, start); err != nil || len(found) != 0 || more != 0 {
		t.Errorf("found %+v and %d more, %v", found, more, err)
	}
	if err := os.Rename(in("app/src"), in("app/lib")); err != nil {
		t.Fatal(err)
	}
	if found, _, err := since(t, dir, start); err != nil || !slices.ContainsFunc(found, func(p planted.Finding) bool { return p.Path == "app/lib/Makefile" }) {
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
	found, _, err := since(t, dir, start)
	if err != nil || len(found) != 1 || found[0].Path != "lib" {
		t.Errorf("found %+v, %v", found, err)
	}
}

// M-13: what the user's own configuration of git names in a project runs there, too.
func TestWhatTheUsersGitConfigurationNamesIsFound(t *testing.T) {
	for name, c := range map[string]struct{ file, config string }{
		"hooks below each project":           {".gitconfig", "[core]\n\thooksPath = tools/hooks\n"},
		"hooks below the home":               {".gitconfig", "[core]\n\thooksPath = ~/src/p/tools/hooks\n"},
		"the other file":                     {".config/git/config", "[core]\n\thooksPath = tools/hooks\n"},
		"a configuration for some projects":  {".gitconfig", "[includeIf \"gitdir:~/src/\"]\n\tpath = ~/src/p/tools/hooks\n"},
		"a program that compares":            {".gitconfig", "[diff \"x\"]\n\ttextconv = tools/hooks/show\n"},
		"a configuration that is kept apart": {"dot/gitconfig", "[core]\n\thooksPath = tools/hooks\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("GIT_CONFIG_GLOBAL", "")
			dir := filepath.Join(home, "src/p")
			layOut(t, home, []string{c.file + " = " + c.config})
			if strings.HasPrefix(c.file, "dot/") {
				layOut(t, home, []string{".gitconfig -> " + c.file})
			}
			layOut(t, dir, append(configured(""), "tools/hooks/show", "tools/hooks/other", "tools/free"))
			now, err := os.Lstat(filepath.Join(dir, "tools/free"))
			if err != nil {
				t.Fatal(err)
			}
			start := nextTick(t, dir, now.ModTime())
			for _, name := range []string{"tools/hooks/show", "tools/free"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("y"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, _, err := since(t, dir, start)
			if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Path, "tools/hooks/") {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}

// compiledOf is what Python keeps of a text: its size and time, and code.
func compiledOf(source string) []byte {
	info, err := os.Stat(source)
	if err != nil {
		panic(err)
	}
	head := binary.LittleEndian.AppendUint32([]byte{0xa7, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0}, uint32(info.ModTime().Unix()))
	return append(binary.LittleEndian.AppendUint32(head, uint32(info.Size())), "code"...)
}

// F-126, F-04: compiled text is named where Python would load it, and is harmless
// where nothing does.
func TestCompiledTextIsNamedWhereItIsLoaded(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	layOut(t, dir, []string{"a/x.py = x = 1", "a/z.py = z = 1"})
	start := nextTick(t, dir, time.Now().Add(-time.Minute))
	layOut(t, dir, []string{"a/__pycache__/y.cpython-311.pyc", "a/__pycache__/z.cpython-311.pyc = short", ".pytest_cache/.gitignore = *", ".pytest_cache/v/cache/lastfailed = {}"})
	stale, hashed := compiledOf(in("a/x.py")), compiledOf(in("a/x.py"))
	stale[8]++
	hashed[4], hashed[8] = 1, 0
	for name, text := range map[string][]byte{
		"a/__pycache__/x.cpython-311.pyc": compiledOf(in("a/x.py")), "a/__pycache__/x.cpython-312.pyc": stale, "a/__pycache__/z.cpython-310.pyc": hashed,
	} {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, _, err := since(t, dir, start)
	var have []string
	for _, f := range found {
		have = append(have, f.Path)
	}
	if want := []string{"a/__pycache__/x.cpython-311.pyc", "a/__pycache__/z.cpython-310.pyc"}; err != nil || !slices.Equal(have, want) {
		t.Errorf("have %q, want %q, %v", have, want, err)
	}
}

// F-04: what a build leaves and this machine may run is found, with what it is.
func TestBuildOutputsAreFound(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	layOut(t, dir, []string{"Cargo.toml", "main.c"})
	start := nextTick(t, dir, time.Now().Add(-time.Minute))
	outputs := []string{
		"main.d", "src/main.o", "lib/libx.so", "lib/libx.so.1.2", "libs/x.jar", "com/X.class", "build/Release/x.node", "CMakeCache.txt", "model.pkl", "bin/tool", "dist/index.js",
		"app", "run-me",
	}
	layOut(t, dir, append(outputs, "target/debug/build/x-1/build-script-build", "target/debug/x.d", "target/CACHEDIR.TAG", "notes/LICENSE", "src/bin/main.rs", "lib/index.js"))
	if err := errors.Join(os.WriteFile(in("app"), []byte("\x7fELF\x02"), 0o600), os.Chmod(in("run-me"), 0o755), os.Chmod(in("target/debug/build/x-1/build-script-build"), 0o755)); err != nil { //nolint:gosec // programs
		t.Fatal(err)
	}
	found, _, err := since(t, dir, start)
	if err != nil {
		t.Fatal(err)
	}
	want := append(outputs, "target/")
	for _, f := range found {
		i := slices.Index(want, f.Path)
		if i < 0 {
			t.Errorf("%s is named: %s", f.Path, f.Reason)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	if len(want) > 0 {
		t.Errorf("not named: %q", want)
	}
}

// F-06: however many decoys there are, what runs on opening or building is in the few lines.
func TestDecoysHideNothing(t *testing.T) {
	dir, start := t.TempDir(), time.Now().Add(-time.Second)
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprintf(".f%d", i), fmt.Sprintf("d%d/a.so", i), fmt.Sprintf("many/x%d.mk", i))
	}
	layOut(t, dir, append(names, "zz/conftest.py", "zz/Makefile", "many/Makefile", "zz/.envrc"))
	r, err := search.Since(t.Context(), dir, search.Options{Since: start})
	if err != nil || len(r.Findings) != 4504 || r.More != 0 {
		t.Fatalf("%d findings, %d more, %v", len(r.Findings), r.More, err)
	}
	groups, counted := planted.Groups(r.Findings), 0
	var lines []string
	for _, g := range groups {
		counted += g.Count
		lines = append(lines, g.String())
	}
	text := strings.Join(lines, "\n")
	if len(lines) > 10 || counted != len(r.Findings) {
		t.Errorf("%d lines of %d findings:\n%.2000s", len(lines), counted, text)
	}
	for _, want := range []string{"zz/.envrc is new or changed: direnv", "zz/: Makefile and conftest.py", "many/: Makefile, x0.mk", "and 1496 more", ".f0, .f1", "1500 build outputs"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// F-10: what others may write to since is named, and what backups leave out.
func TestRightsThatWereGivenToOthersAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(dir string) error
		want string
	}{
		"the top":        {func(dir string) error { return os.Chmod(dir, 0o777) }, "."},                                         //nolint:gosec // what an agent does
		"a folder":       {func(dir string) error { return os.Chmod(filepath.Join(dir, "src"), 0o777) }, "src"},                 //nolint:gosec // what an agent does
		"a file":         {func(dir string) error { return os.Chmod(filepath.Join(dir, "src/main.go"), 0o666) }, "src/main.go"}, //nolint:gosec // what an agent does
		"an access list": {func(dir string) error { return setList(dir, "system.posix_acl_access") }, "."},
		"a default list": {func(dir string) error { return setList(dir, "system.posix_acl_default") }, "."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			layOut(t, dir, []string{"src/main.go", "src/other.go"})
			before := search.Top(dir)
			start := nextTick(t, dir, time.Now().Add(-time.Minute))
			if err := c.act(dir); errors.Is(err, syscall.ENOTSUP) {
				t.Skip("this file system has no access lists")
			} else if err != nil {
				t.Fatal(err)
			}
			r, err := search.Since(t.Context(), dir, search.Options{Since: start, Before: before})
			if err != nil || len(r.Findings) != 1 || r.Findings[0].Path != c.want || r.Findings[0].Kind != planted.Open {
				t.Errorf("found %+v, %v", r.Findings, err)
			}
			r, err = search.Since(t.Context(), dir, search.Options{Since: start, Before: search.Top(dir)})
			if c.want == "." && (err != nil || len(r.Findings) != 0) {
				t.Errorf("it was so before: found %+v, %v", r.Findings, err)
			}
		})
	}
}

// F-10: at the end of who had the folder, what every user may write to since is closed again, and
// said so. What was so before stays, and so does what a link leads to elsewhere.
func TestWhatWasOpenedToAllIsClosedAgain(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "mine")
	need(t, os.WriteFile(elsewhere, nil, 0o600))
	need(t, os.Chmod(elsewhere, 0o666)) //nolint:gosec // what stays so
	layOut(t, dir, []string{"src/main.go", "before/x", "conftest.py"})
	need(t, os.Chmod(filepath.Join(dir, "before"), 0o777)) //nolint:gosec // what was so before
	before := search.Top(dir)
	start := nextTick(t, dir, time.Now())
	for name, mode := range map[string]fs.FileMode{".": 0o777, "src": 0o773, "src/main.go": 0o646, "conftest.py": 0o666} {
		need(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	need(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	need(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	need(t, os.Chmod(filepath.Join(dir, "tmp"), 0o777|fs.ModeSticky))
	r, err := search.Since(t.Context(), dir, search.Options{Since: start, Before: before, Close: true})
	need(t, err)
	told := 0
	for _, f := range r.Findings {
		if strings.Contains(f.Reason, "is taken back") {
			told++
		}
	}
	if told != 4 {
		t.Errorf("%d are said to be closed: %+v", told, r.Findings)
	}
	for name, want := range map[string]fs.FileMode{
		dir: 0o775, filepath.Join(dir, "src"): 0o771, filepath.Join(dir, "src/main.go"): 0o644, filepath.Join(dir, "conftest.py"): 0o664,
		filepath.Join(dir, "before"): 0o777, filepath.Join(dir, "tmp"): 0o777, elsewhere: 0o666,
	} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v, %v", name, info.Mode(), want, err)
		}
	}
}

// F-10: what was open at the top before hides nothing that an agent opens since. Where all of it
// was open it does, as on a file system that keeps no rights.
func TestATopThatWasOpenHidesNoRights(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, dir string)
		want   []string
	}{
		"a top with an access list": {func(t *testing.T, dir string) { need(t, setList(dir, "system.posix_acl_access")) }, []string{".", "src/main.go"}},
		"a top that all may write":  {func(t *testing.T, dir string) { need(t, os.Chmod(dir, 0o777)) }, []string{"src/main.go"}}, //nolint:gosec // what an agent does
		"a folder that is so throughout": {func(t *testing.T, dir string) {
			need(t, os.Chmod(dir, 0o777))
			need(t, os.Chmod(filepath.Join(dir, "src"), 0o777))
		}, nil}, //nolint:gosec // what an agent does
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			layOut(t, dir, []string{"src/main.go"})
			need(t, os.Symlink("src", filepath.Join(dir, "link")))
			c.before(t, dir)
			before := search.Top(dir)
			start := nextTick(t, dir, time.Now().Add(-time.Minute))
			need(t, os.Chmod(dir, 0o777))                               //nolint:gosec // what an agent does
			need(t, os.Chmod(filepath.Join(dir, "src/main.go"), 0o666)) //nolint:gosec // what an agent does
			r, err := search.Since(t.Context(), dir, search.Options{Since: start, Before: before})
			var have []string
			for _, f := range r.Findings {
				have = append(have, f.Path)
			}
			if slices.Sort(have); err != nil || !slices.Equal(have, c.want) {
				t.Errorf("have %q, want %q, %v", have, c.want, err)
			}
		})
	}
}

// need ends a test; a file system without access lists has it skipped.
func need(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, syscall.ENOTSUP) {
		t.Skip("this file system has no access lists")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// setList lets user 1 write, by an access list.
func setList(dir, list string) error {
	text := []byte{2, 0, 0, 0}
	for _, entry := range [][3]uint32{{1, 7, 0xffffffff}, {2, 7, 1}, {4, 5, 0xffffffff}, {16, 7, 0xffffffff}, {32, 5, 0xffffffff}} {
		text = binary.LittleEndian.AppendUint16(text, uint16(entry[0]))
		text = binary.LittleEndian.AppendUint16(text, uint16(entry[1]))
		text = binary.LittleEndian.AppendUint32(text, entry[2])
	}
	return syscall.Setxattr(dir, list, text, 0)
}

// F-13: what something trusted calls is named, by whoever calls it.
func TestWhatSomethingTrustedCallsIsNamed(t *testing.T) {
	dir := t.TempDir()
	layOut(t, dir, []string{
		".git/hooks/pre-commit = #!/bin/sh\nexec ./scripts/check", ".envrc = source scripts/env.sh", "Makefile = -include vars.inc\nall:\n\tcat notes.txt",
		"package.json = {\"scripts\":{\"test\":\"x\"}}", "scripts/other", "notes.txt", "data/linked", "tools/hook -> ../data/linked",
		".vscode/tasks.json = {\"tasks\":[{\"command\":\"${workspaceFolder}/tools/build.sh\",\"args\":[\"tools/hook\"]}]}",
		"GNUmakefile = include\tconf\nifdef X\n\tsinclude more.inc\nendif", ".git/hooks/pre-push = \"$(git rev-parse --show-toplevel)/tools/push\"; . $PWD/tools/env",
		".githooks/post-merge = \"$(dirname \"$0\")/../tools/merge\"",
	})
	start := nextTick(t, dir, time.Now())
	layOut(t, dir, []string{"scripts/check", "scripts/env.sh", "vars.inc", "server.js", "scripts/other", "notes.txt", "data/linked", "data/anew", "tools/build.sh", "conf", "more.inc", "tools/push", "tools/merge", "tools/env -> ../data/anew"})
	found, _, err := since(t, dir, start)
	have := map[string]string{}
	for _, f := range found {
		have[f.Path] = f.Program
	}
	want := map[string]string{"scripts/check": ".git/hooks/pre-commit", "scripts/env.sh": ".envrc", "vars.inc": "Makefile", "server.js": "npm start",
		"tools/build.sh": ".vscode/tasks.json", "tools/hook": ".vscode/tasks.json", "conf": "GNUmakefile", "more.inc": "GNUmakefile",
		"tools/push": ".git/hooks/pre-push", "tools/env": ".git/hooks/pre-push", "tools/merge": ".githooks/post-merge"}
	if err != nil || !maps.Equal(have, want) {
		t.Errorf("have %v, want %v, %v", have, want, err)
	}
}

// M-13: package managers link files from their caches into projects. What an agent writes to one of them
// changes the cache, which is named; what has all of its names in the project is not.
func TestAFileThatIsTheSameElsewhereIsNamed(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(from, to string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lib.js", "kept.js", "twice.txt"} {
		put(filepath.Join(cache, name), "of the cache")
		link(filepath.Join(cache, name), at("node_modules/a/"+name))
	}
	link(at("node_modules/a/twice.txt"), at("sub/twice.txt"))
	put(at("one.txt"), "x")
	link(at("one.txt"), at("sub/two.txt"))
	info, err := os.Stat(at("sub"))
	if err != nil {
		t.Fatal(err)
	}
	start := nextTick(t, dir, info.ModTime())
	for _, name := range []string{"node_modules/a/lib.js", "sub/twice.txt", "one.txt"} {
		put(at(name), "of the agent")
	}
	found, _, err := since(t, dir, start)
	if err != nil {
		t.Fatal(err)
	}
	var shared []string
	for _, f := range found {
		if f.Kind == planted.Shared {
			shared = append(shared, filepath.Base(f.Path))
		}
	}
	if slices.Sort(shared); !slices.Equal(shared, []string{"lib.js", "twice.txt"}) {
		t.Errorf("have %v of %+v", shared, found)
	}
}
