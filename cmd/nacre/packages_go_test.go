package main_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// module is one that a proxy serves.
type module struct {
	path, version string
	files         map[string]string
}

// moduleSum is the h1 digest of files by their names, as go.sum has it.
func moduleSum(files map[string]string) string {
	list := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(list, "%x  %s\n", sha256.Sum256([]byte(files[name])), name) // a hash takes everything
	}
	return "h1:" + base64.StdEncoding.EncodeToString(list.Sum(nil))
}

func (m module) prefixed() map[string]string {
	files := map[string]string{}
	for name, text := range m.files {
		files[m.path+"@"+m.version+"/"+name] = text
	}
	return files
}

// sum are the lines of a go.sum that pin it.
func (m module) sum() string {
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", m.path, m.version, moduleSum(m.prefixed()),
		m.path, m.version, moduleSum(map[string]string{"go.mod": m.files["go.mod"]}))
}

// at is where a proxy has it.
func (m module) at() string { return "/" + m.path + "/@v/" + m.version }

// Dep needs deeper of the first version, of which nothing but the manifest counts.
func goModules() (dep, next, deeper, first module) {
	dep = module{"example.test/dep", "v1.0.0", map[string]string{
		"go.mod": "module example.test/dep\n\ngo 1.16\n\nrequire example.test/deeper v1.0.0\n",
		"dep.go": "package dep\n\nimport \"example.test/deeper\"\n\n//go:generate false\n\nfunc Says() string { return deeper.Says() }\n",
	}}
	next = module{"example.test/dep", "v1.1.0", maps.Clone(dep.files)}
	next.files["dep.go"] += "// chosen by the work\n"
	deeper = module{"example.test/deeper", "v1.0.1", map[string]string{
		"go.mod": "module example.test/deeper\n", "deeper.go": "package deeper\n\nfunc Says() string { return \"dep works\" }\n",
	}}
	first = module{"example.test/deeper", "v1.0.0", map[string]string{"go.mod": "module example.test/deeper // once\n"}}
	return dep, next, deeper, first
}

func newGoSite(t *testing.T) *fetchSite {
	t.Helper()
	files := map[string]string{}
	dep, next, deeper, first := goModules()
	for _, m := range []module{dep, next, deeper, first} {
		files[m.at()+".info"], files[m.at()+".mod"] = fmt.Sprintf("{\"Version\":%q}", m.version), m.files["go.mod"]
		if len(m.files) > 1 {
			files[m.at()+".zip"] = zipped(t, m.prefixed())
		}
	}
	return newFetchSite(t, files)
}

func goMod(version string) string {
	return "module p\n\ngo 1.16\n\nrequire (\n\texample.test/dep " + version + "\n\texample.test/deeper v1.0.1\n)\n"
}

func goSum(dep module) string {
	_, _, deeper, first := goModules()
	_, manifest, _ := strings.Cut(first.sum(), "\n")
	return dep.sum() + manifest + deeper.sum()
}

// goProject is a repository whose test needs modules, and which says in every way
// that it wants them from elsewhere.
func (i *installation) goProject(sum string) {
	i.t.Helper()
	i.write("p/go.mod", goMod("v1.0.0"))
	i.write("p/go.sum", sum)
	i.write("p/say.go", "package p\n\nimport \"example.test/dep\"\n\nfunc say() string { return dep.Says() }\n")
	i.write("p/say_test.go", "package p\n\nimport \"testing\"\n\nfunc TestSay(t *testing.T) {\n\tif say() != \"dep works\" {\n\t\tt.Fail()\n\t}\n}\n")
	i.write("p/.config/go/env", "GOPROXY=http://elsewhere.test\nGOFLAGS=-mod=mod\n")
	i.write("p/.nacre/roles/tested.toml", quality)
	i.project()
	i.withGo() // what the tests themselves are compiled with is warm, modules are not
	i.env = append(i.env, "GOPROXY=http://packages.test,direct", "GOMODCACHE=", "GOFLAGS=")
}

// withGo gives go the build cache of this machine: that of a home of its own is cold, and
// takes minutes on a busy machine.
func (i *installation) withGo() {
	i.t.Helper()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		i.t.Fatal(err)
	}
	i.env = append(i.env, "GOCACHE="+strings.TrimSpace(string(cache)))
}

func (i *installation) goTask(more string) string {
	i.t.Helper()
	return i.write("task.toml", "[task]\nrole = \"tested\"\nagent-id = \"work\"\n[scope]\nfiles-whitelist = [\"**\"]\n[verification]\n"+more+"[body]\ntext = \"Say it\"\n")
}

const saidInGo = "package p\n\nimport \"example.test/dep\"\n\nfunc say() string { return dep.Says() } // said\n"

// S-13: what a go.sum pins is fetched through the egress list before verifiers run
// without network, and is there for the next one.
func TestModulesOfAGoSumAreThereForVerifiers(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	i, site := install(t), newGoSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	dep, _, deeper, _ := goModules()
	i.goProject(goSum(dep))
	old, kept := i.unused("go", 31), i.unused("go", 29)
	rec := i.writes(map[string]string{"say.go": saidInGo})
	have := i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec)
	have.want(t, 0, "fetch", "http://packages.test:80", "✓ verify quality::tests-green · weak", "merged")
	i.nacre("run", "--project", "p", "--recording", i.writes(map[string]string{"new.txt": "x\n"}), "--check", "go test ./...",
		"--check", "! touch $(go env GOMODCACHE)/x", "say it").want(t, 0, "merged")
	for _, m := range []module{dep, deeper} {
		if n := site.requests(m.at() + ".zip"); n != 1 {
			t.Errorf("%s was asked for %d times", m.path, n)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/sessions/*/packages")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	forgotten(t, old, kept)
	i.nacre("audit", "verify").want(t, 0)
}

// S-13: modules that the host has are not asked for, and need no server.
func TestModulesThatTheHostHasAreNotFetched(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	for name, c := range map[string]struct {
		lacks string // what the host's cache is without
		asked int
	}{
		"all of them":     {"", 0},
		"all but one":     {"example.test/deeper@v1.0.1", 1},
		"without details": {"cache/download/example.test/dep/@v/v1.0.0.info", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, site := install(t), newGoSite(t)
			dep, _, deeper, _ := goModules()
			i.goProject(goSum(dep))
			download := i.command("go", "mod", "download")
			download.Dir = filepath.Join(i.work, "p")
			address := strings.TrimSuffix(site.egress[strings.LastIndex(site.egress, "= \"")+3:], "\"\n")
			download.Env = append(download.Env, "GOPROXY=http://"+address, "GOSUMDB=off", "GOFLAGS=-modcacherw")
			if out, err := download.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			cache := filepath.Join(i.work, "home/go/pkg/mod")
			if c.asked > 0 {
				i.write("home/.config/nacre/config.toml", site.egress)
				for _, name := range []string{c.lacks, "cache/download/example.test/deeper/@v"} {
					if err := os.RemoveAll(filepath.Join(cache, name)); err != nil {
						t.Fatal(err)
					}
				}
			} else if c.lacks != "" {
				if err := os.Remove(filepath.Join(cache, c.lacks)); err != nil {
					t.Fatal(err)
				}
			}
			before := site.requests(dep.at() + ".zip")
			rec := i.writes(map[string]string{"say.go": saidInGo})
			i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec).want(t, 0, "✓ verify quality::tests-green · weak", "merged")
			if n := site.requests(dep.at()+".zip") - before; n != 0 {
				t.Errorf("what the host has was asked for %d times", n)
			}
			if n := site.requests(deeper.at()+".zip") - 1; n != c.asked {
				t.Errorf("what it lacks was asked for %d times", n)
			}
		})
	}
}

// S-13: what cannot be had as it is pinned fails what needs it, and says why.
func TestModulesThatAreNotAsPinnedAreNone(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	dep, _, deeper, _ := goModules()
	good := goSum(dep)
	wrong := "h1:" + base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	none := module{"example.test/none", "v1.0.0", map[string]string{"go.mod": "module example.test/none\n"}}
	for name, c := range map[string]struct {
		egress, proxy string
		sum           string
		want          string
		asked         bool
	}{
		"another content than is pinned":  {"packages", "", strings.Replace(good, moduleSum(dep.prefixed()), wrong, 1), "checksum mismatch", true},
		"another manifest than is pinned": {"packages", "", strings.Replace(good, moduleSum(map[string]string{"go.mod": dep.files["go.mod"]}), wrong, 1), "checksum mismatch", false},
		"no pin":                          {"packages", "", deeper.sum(), "missing go.sum entry", false},
		"no digest":                       {"packages", "", strings.Replace(good, moduleSum(dep.prefixed()), "h1:AAAA", 1), "line 1 has the digest", false},
		"a name that climbs":              {"packages", "", "../../x v1.0.0 " + wrong + "\n" + good, "which is no module", false},
		"a server that is not listed":     {"", "", good, "http://packages.test:80 is not on the egress list (--egress packages.test:80/http)", false},
		"a module that is not there":      {"packages", "", good + none.sum(), "404", true},
		"no server":                       {"packages", "direct", good, "GOPROXY names no server", false},
		"a password":                      {"packages", "http://me:secret@packages.test", good, "without a password", false},
		"files":                           {"packages", "file:///tmp", good, "something else than servers", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, site := install(t), newGoSite(t)
			if c.egress != "" {
				i.write("home/.config/nacre/config.toml", site.egress)
			}
			i.goProject(c.sum)
			if c.proxy != "" {
				i.env = append(i.env, "GOPROXY="+c.proxy)
			}
			rec := i.writes(map[string]string{"say.go": saidInGo})
			i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec, "--json").want(t, 1, "quality::tests-green", c.want)
			if n := site.requests(dep.at() + ".zip"); (n > 0) != c.asked {
				t.Errorf("the module was asked for %d times", n)
			}
			if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/go/*")); c.want == "checksum mismatch" && len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// S-13: the base's go.sum decides, unless the task lets dependencies change.
func TestTheBaseSaysWhichModulesThereAre(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	for more, want := range map[string]int{"": 0, "allow-dep-bump = true\n": 1} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			i, site := install(t), newGoSite(t)
			i.write("home/.config/nacre/config.toml", site.egress)
			dep, next, _, _ := goModules()
			i.goProject(goSum(dep))
			rec := i.writes(map[string]string{"go.mod": goMod("v1.1.0"), "go.sum": goSum(next)})
			have := i.nacre("task", "run", i.goTask(more), "--project", "p", "--recording", rec, "--held", "take")
			if more != "" {
				have.want(t, 0, "merged")
			}
			if have := site.requests(next.at() + ".zip"); have != want {
				t.Errorf("the work's choice was fetched %d times", have)
			}
		})
	}
}

// S-13: what is kept for one module of a tree is not taken for what another of the
// same tree needs.
func TestEachModuleOfATreeGetsItsOwn(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	i, site := install(t), newGoSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	dep, _, deeper, _ := goModules()
	i.goProject(deeper.sum())
	for name, text := range map[string]string{"p/go.mod": "module p\n\ngo 1.16\n\nrequire example.test/deeper v1.0.1\n", "p/say.go": saidBy("p", deeper)} {
		i.write(name, text)
	}
	i.write("p/m/go.mod", goMod("v1.0.0"))
	i.write("p/m/go.sum", goSum(dep))
	i.write("p/m/say.go", saidBy("m", dep))
	i.write("p/m/say_test.go", "package m\n\nimport \"testing\"\n\nfunc TestSay(t *testing.T) {\n\tif say() != \"dep works\" {\n\t\tt.Fail()\n\t}\n}\n")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "two modules")
	rec := i.writes(map[string]string{"say.go": saidBy("p", deeper) + "// said\n", "m/say.go": saidBy("m", dep) + "// said\n"})
	i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec).want(t, 0, "✓ verify quality::tests-green · weak", "merged")
}

func saidBy(pkg string, m module) string {
	return "package " + pkg + "\n\nimport says \"" + m.path + "\"\n\nfunc say() string { return says.Says() }\n"
}

// S-13: a manifest that did not come is asked for again by the next session.
func TestModulesThatCameInPartAreNotKept(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	i, site := install(t), newGoSite(t)
	i.write("home/.config/nacre/config.toml", site.egress)
	dep, _, _, first := goModules()
	i.goProject(goSum(dep))
	manifest := site.files[first.at()+".mod"]
	delete(site.files, first.at()+".mod")
	rec := i.writes(map[string]string{"say.go": saidInGo})
	i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec).want(t, 1, "quality::tests-green")
	if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/go/*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	site.mu.Lock()
	site.files[first.at()+".mod"] = manifest
	site.mu.Unlock()
	i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec).want(t, 0, "✓ verify quality::tests-green · weak", "merged")
}

// F-118: where egress leads to the module proxy of the host's Go, commands inside fetch
// without a variable set by hand. The host's module cache stays as it was; without that
// host on the list nothing is asked.
func TestGoFetchesInsideWhereEgressLeadsToItsProxy(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "go")
	i, site := install(t), newGoSite(t)
	dep, _, _, _ := goModules()
	i.write("home/.config/nacre/config.toml", strings.Replace(site.egress, `["packages.test:80/http"]`, `[]`, 1))
	i.goProject(goSum(dep))
	i.write("mod/cache/download/kept", "the host's own\n")
	i.env = append(i.env, "GOPROXY=http://user:secret@packages.test|direct", "GOSUMDB=off", "GOMODCACHE="+filepath.Join(i.work, "mod"))
	test := []string{"exec", "--project", "p", "--", "sh", "-c", "go env GOPROXY; go test ./... && go get example.test/dep@v1.1.0 && grep v1.1.0 go.mod"}
	i.nacre(test...).want(t, 1, "module lookup disabled by GOPROXY=off")
	open := i.nacre(append([]string{"exec", "--egress", "packages.test:80/http"}, test[1:]...)...)
	open.want(t, 0, "http://packages.test|direct\n", "ok  \tp\t", "example.test/dep v1.1.0")
	if strings.Contains(open.stdout, "secret") {
		t.Error("the password of GOPROXY is inside")
	}
	i.nacre("exec", "--egress", "other.test:80/http", "--project", "p", "--", "go", "env", "GOPROXY").want(t, 0, "off\n")
	// F-138: a module cache that is made in the project has no folder that its owner cannot empty.
	inProject := "GOMODCACHE=$PWD/cache go mod download example.test/dep && find cache -type d ! -perm -200"
	have := i.nacre("exec", "--egress", "packages.test:80/http", "--project", "p", "--", "sh", "-c", inProject)
	if have.want(t, 0); have.stdout != "" || !isThere(filepath.Join(i.work, "p/cache/example.test")) {
		t.Errorf("read-only folders are left: %s%s", have.stdout, have.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(i.work, "mod/*")); len(left) != 1 {
		t.Errorf("have %q in the host's module cache, want nothing new", left)
	}
}
