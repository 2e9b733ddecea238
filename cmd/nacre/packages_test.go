package main_test

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

const quality = `[role]
name = "tested"
display-name = "tested"
description = "Tests are green."
[capabilities]
required = ["quality::tests-green"]
[tools]
allowed = ["Read", "Write", "Edit", "Bash"]
`

// fetchSite is a registry on loopback that is reached as packages.test, and counts
// what it was asked.
type fetchSite struct {
	egress string
	mu     sync.Mutex
	asked  map[string]int
	files  map[string]string
	// hold, where it is set, keeps answers back until it is closed.
	hold chan struct{}
}

func newNPMSite(t *testing.T) *fetchSite {
	t.Helper()
	return newFetchSite(t, map[string]string{
		// Its install script says that it ran wherever it can.
		"/dep-1.0.0.tgz": tarred(t, map[string]string{
			"package/package.json": `{"name":"dep","version":"1.0.0","scripts":{"preinstall":"touch ran; exit 1","install":"touch ran","postinstall":"touch ran"}}`,
			"package/index.js":     "module.exports = require('node:fs').existsSync(__dirname + '/ran') ? 'its script ran' : 'dep works'\n",
		}),
		"/dep-2.0.0.tgz": tarred(t, map[string]string{
			"package/package.json": `{"name":"dep","version":"2.0.0"}`, "package/index.js": "module.exports = 'dep works'; // chosen by the work\n",
		}),
	})
}

func newFetchSite(t *testing.T, files map[string]string) *fetchSite {
	t.Helper()
	s := &fetchSite{asked: map[string]int{}, files: files}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		text, known := s.files[r.URL.Path]
		s.mu.Unlock()
		if s.hold != nil {
			<-s.hold
		}
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text) // the client is a sandbox's, and says so itself
	}))
	t.Cleanup(server.Close)
	s.egress = fmt.Sprintf("[egress]\nallow = [\"packages.test:80/http\"]\n[egress.pin]\n\"packages.test:80\" = %q\n", server.Listener.Addr())
	return s
}

func (s *fetchSite) requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// lock is a package-lock.json that pins one version of dep; change changes its entry.
func (s *fetchSite) lock(t *testing.T, version string, change func(entry map[string]any)) string {
	t.Helper()
	file := "/dep-" + version + ".tgz"
	sum := sha512.Sum512([]byte(s.files[file]))
	entry := map[string]any{"version": version, "resolved": "http://packages.test" + file, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	if change != nil {
		change(entry)
	}
	text, err := json.Marshal(map[string]any{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "packages": map[string]any{
		"": map[string]any{"name": "p", "version": "1.0.0", "dependencies": map[string]string{"dep": version}}, "node_modules/dep": entry,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func manifest(version string) string {
	return `{"name":"p","version":"1.0.0","scripts":{"test":"node --test","preinstall":"exit 1"},"dependencies":{"dep":"` + version + `"}}`
}

// npmProject is a repository whose test needs dep.
func (i *installation) npmProject(lock string) {
	i.t.Helper()
	i.write("p/package.json", manifest("1.0.0"))
	i.write("p/package-lock.json", lock)
	i.write("p/.npmrc", "ignore-scripts=false\nregistry=http://elsewhere.test/\n")
	i.write("p/.gitignore", "node_modules\n")
	i.write("p/say.js", "module.exports = require('dep')\n")
	i.write("p/say.test.js", "require('node:test')('says', () => require('node:assert').equal(require('./say.js'), 'dep works'))\n")
	i.write("p/.nacre/roles/tested.toml", quality)
	i.project()
}

// writes makes a recording of an agent that writes files.
func (i *installation) writes(files map[string]string) string {
	i.t.Helper()
	lines := []string{`{"v":1,"name":"r"}`}
	for name, text := range files {
		line, err := json.Marshal(map[string]any{"tool": "write", "input": map[string]string{"path": name, "content": text}})
		if err != nil {
			i.t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return i.write("rec.jsonl", strings.Join(lines, "\n")+"\n")
}

// unused makes a folder of packages that nobody has used for days, and returns it.
func (i *installation) unused(tool string, days int) string {
	i.t.Helper()
	dir := filepath.Join(".local/state/nacre", tool, fmt.Sprintf("unused-%d", days))
	i.write(filepath.Join("home", dir, "x"), "x\n")
	dir = filepath.Join(i.work, "home", dir)
	then := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
	if err := errors.Join(os.Chmod(dir, 0o500), os.Chtimes(dir, then, then)); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // it may be gone
	return dir
}

// forgotten holds that of two folders the first is gone.
func forgotten(t *testing.T, old, kept string) {
	t.Helper()
	if _, err := os.Stat(old); err == nil {
		t.Errorf("%s is kept for good", old)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func (i *installation) npmTask(more string) string {
	i.t.Helper()
	return i.write("task.toml", "[task]\nrole = \"tested\"\nagent-id = \"work\"\n[scope]\nfiles-whitelist = [\"**\"]\n[verification]\ncommands = [\"node --test\"]\n"+more+"[body]\ntext = \"Say it\"\n")
}

// S-13: what a lock file of npm's pins is fetched through the egress list before
// verifiers and checks run without network. Nothing of it runs meanwhile, and it
// is fetched once.
func TestDependenciesOfALockFileAreThereForVerifiers(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	i, site := install(t), newNPMSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	i.npmProject(site.lock(t, "1.0.0", nil))
	old, kept := i.unused("npm", 31), i.unused("npm", 29)
	// The agent brings a dep of its own, in a folder that git ignores and in one that it does not.
	rec := i.writes(map[string]string{"say.js": "module.exports = require('dep') // said\n", "node_modules/dep/index.js": "module.exports = 'forged'\n"})
	have := i.nacre("task", "run", i.npmTask(""), "--project", "p", "--recording", rec)
	have.want(t, 0, "fetch", "http://packages.test:80", "✓ verify quality::tests-green · weak", "merged")
	if n := site.requests("/dep-1.0.0.tgz"); n != 1 {
		t.Errorf("the package was asked for %d times", n)
	}
	if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/sessions/*/packages")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if _, err := os.Stat(filepath.Join(i.work, "p/node_modules")); err == nil {
		t.Error("what was fetched is in the project")
	}
	forgotten(t, old, kept)
	i.nacre("audit", "verify").want(t, 0)
}

// S-13: what cannot be had as it is pinned fails what needs it, and says why.
func TestDependenciesThatAreNotAsPinnedAreNone(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	wrong := "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))
	for name, c := range map[string]struct {
		egress bool
		change func(map[string]any)
		want   string
		asked  int
	}{
		"another content than is pinned": {true, func(e map[string]any) { e["integrity"] = wrong }, "integrity", 1},
		"a digest that can be made":      {true, func(e map[string]any) { e["integrity"] = "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=" }, "not pinned", 0},
		"no digest":                      {true, func(e map[string]any) { delete(e, "integrity"); e["Integrity"] = wrong }, "not pinned", 0},
		"a server that is not listed":    {false, nil, "http://packages.test:80 is not on the egress list (--egress packages.test:80/http)", 0},
		"a package from git":             {true, func(e map[string]any) { e["resolved"] = "git+ssh://git@packages.test/dep.git#0" }, "packages of registries", 0},
		"a file of the host":             {true, func(e map[string]any) { e["resolved"] = "file:../../dep" }, "packages of registries", 0},
		"a package that is not there":    {true, func(e map[string]any) { e["resolved"] = "http://packages.test/none.tgz" }, "404", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, site := install(t), newNPMSite(t)
			if c.egress {
				i.write("home/.config/nacre/config.toml", site.egress)
			}
			i.npmProject(site.lock(t, "1.0.0", c.change))
			rec := i.writes(map[string]string{"say.js": "module.exports = require('dep') // said\n"})
			i.nacre("task", "run", i.npmTask(""), "--project", "p", "--recording", rec, "--json").want(t, 1, "quality::tests-green", c.want)
			if n := site.requests("/dep-1.0.0.tgz"); (n > 0) != (c.asked > 0) {
				t.Errorf("the package was asked for %d times", n)
			}
		})
	}
}

// S-13: the base's lock file decides, unless the task lets dependencies change.
func TestTheBaseSaysWhichDependenciesThereAre(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	for more, want := range map[string]int{"": 0, "allow-dep-bump = true\n": 1} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			i, site := install(t), newNPMSite(t)
			i.write("home/.config/nacre/config.toml", site.egress)
			i.npmProject(site.lock(t, "1.0.0", nil))
			rec := i.writes(map[string]string{"package.json": manifest("2.0.0"), "package-lock.json": site.lock(t, "2.0.0", nil)})
			i.nacre("task", "run", i.npmTask(more), "--project", "p", "--recording", rec, "--held", "take").want(t, 0, "merged")
			if have := site.requests("/dep-2.0.0.tgz"); have != want {
				t.Errorf("the work's choice was fetched %d times", have)
			}
		})
	}
}

// S-13: a plain run's checks find them too, and so does a verification of work
// that no run of nacre made.
func TestChecksAndVerifyFindDependencies(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	i, site := install(t), newNPMSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	i.npmProject(site.lock(t, "1.0.0", nil))
	rec := i.writes(map[string]string{"new.txt": "x\n"})
	i.nacre("run", "--project", "p", "--recording", rec, "--check", "node --test", "--check", "! touch node_modules/x", "say it").want(t, 0, "merged")
	task := i.npmTask("")
	if out, err := i.command("git", "clone", "-q", "p", "work").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	i.write("work/say.js", "module.exports = require('dep') // said\n")
	i.env = append(i.env, "AGENT_ID=work", "TASK_TOML="+task, "WORKTREE_PATH="+filepath.Join(i.work, "work"), "MAIN_REPO="+filepath.Join(i.work, "p"), "RUN_MODE=worktree")
	i.nacre("capability", "verify", "quality::tests-green").want(t, 0, "held")
}

// S-13, S-12: a run that is killed while its dependencies come goes on, and what came
// in part is none.
func TestAFetchThatIsKilledIsBegunAgain(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	i, site := install(t), newNPMSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	i.npmProject(site.lock(t, "1.0.0", nil))
	rec := i.writes(map[string]string{"say.js": "module.exports = require('dep') // said\n"})
	site.hold = make(chan struct{})
	r := i.begin("task", "run", i.npmTask(""), "--project", "p", "--recording", rec)
	eventually(t, "the package is asked for", func() bool { return site.requests("/dep-1.0.0.tgz") > 0 || r.ProcessState != nil })
	_ = r.Process.Kill() // it may have ended
	_ = r.Wait()
	close(site.hold)
	i.nacre("task", "run", "--session", "work").want(t, 0, "merged")
	if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/sessions/*/packages")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	i.nacre("audit", "verify").want(t, 0)
}
