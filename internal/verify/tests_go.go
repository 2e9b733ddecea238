package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/manifest"
)

// goSettings pin what a Go command does: no network, no other toolchain, no
// flag from a file, and the vendor folder only where the base has one.
func goSettings(c checkout, p part) []string {
	mod, work := "readonly", "off"
	if c.has(path.Join(p.dir, "vendor/modules.txt")) {
		mod = "vendor"
	}
	if _, is := workspace(c, p); is {
		mod, work = "readonly", "auto"
	}
	return []string{
		"GOFLAGS=-mod=" + mod, "GOWORK=" + work, "GOENV=off", "GOTOOLCHAIN=local", "GOPROXY=off", "GOSUMDB=off", "GOTELEMETRY=off",
		"GO111MODULE=on", "GODEBUG=", "GOEXPERIMENT=", "GOTESTSUM_FORMAT=",
	}
}

// workspace is the folder of the innermost go.work around a project.
func workspace(c checkout, p part) (dir string, is bool) {
	for dir = p.dir; ; dir = path.Dir(dir) {
		if c.has(path.Join(dir, "go.work")) {
			return dir, true
		}
		if dir == "." {
			return "", false
		}
	}
}

func goTest(t trees, p part, _ layout, _ string) (argv, env []string, err error) {
	return []string{"go", "test", "-json", "-count=1", "-timeout=" + testLimit.String(), "./..."}, goSettings(t.base, p), nil
}

// goEvent is a line of go test -json, as test2json documents it.
type goEvent struct {
	Action, Package, Test, Output, ImportPath string
}

func parseGo(out Output, _ string) *results {
	r := newResults()
	packages := map[string]bool{}
	for line := range bytes.Lines(out.Stdout) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e goEvent
		if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
			r.strange("a line of the report is none: %s", clip(string(line)))
			continue
		}
		if e.Test == "" {
			r.goPackage(e, packages)
			continue
		}
		r.goTest(e)
	}
	for name, s := range r.tests {
		if pkg, _, _ := strings.Cut(name, ":"); packages[pkg] && s == red {
			r.strange("%s failed, and its package is reported as passed", name)
		}
	}
	return r
}

func (r *results) goTest(e goEvent) {
	name := e.Package + ":" + e.Test
	switch e.Action {
	case "run":
		r.begin(name)
	case "pass":
		r.end(name, green)
	case "fail":
		r.end(name, red)
	case "skip":
		r.end(name, skipped)
	case "output":
		r.says(name, e.Output)
	}
}

// goPackage notes which packages passed as a whole; packages holds true for those.
func (r *results) goPackage(e goEvent, packages map[string]bool) {
	switch e.Action {
	case "build-output":
		r.says(building, e.Output)
	case "pass", "fail", "skip":
		if _, twice := packages[e.Package]; twice {
			r.strange("the package %s is reported twice", clip(e.Package))
		}
		packages[e.Package] = e.Action == "pass" && (len(packages) < maxTests)
	}
}

// plantGo adds a failing test to every package of the base that has tests.
func plantGo(t trees, p part, l layout, nonce string) []canary {
	var list []canary
	done, module := map[string]bool{}, t.modulePath(p)
	for _, name := range t.base.names() {
		dir := path.Dir(name)
		if done[dir] || !strings.HasSuffix(name, "_test.go") || !inside(p.dir, name) || skippedByGo(name) || t.innerModule(p, dir) {
			continue
		}
		source, err := t.base.read(name)
		if err != nil {
			continue
		}
		pkg, ok := packageOf(source)
		if !ok {
			continue
		}
		done[dir] = true
		rel, _ := strings.CutPrefix(dir+"/", strings.TrimPrefix(p.dir+"/", "./"))
		c := canary{
			name: fmt.Sprintf("TestNacre%s_%d", nonce, len(list)), text: fmt.Sprintf("seen %s %d", nonce, len(list)),
			beside: path.Join(module, rel) + ":",
		}
		l.text(path.Join(dir, fmt.Sprintf("zz_nacre_%s_test.go", nonce)),
			fmt.Sprintf("package %s\n\nimport nacre%s \"testing\"\n\nfunc %s(t *nacre%[2]s.T) { t.Fatal(%[4]q) }\n", pkg, nonce, c.name, c.text))
		list = append(list, c)
	}
	return list
}

// modulePath is what the base's go.mod names the module.
func (t trees) modulePath(p part) string {
	data, err := t.base.read(path.Join(p.dir, "go.mod"))
	if err != nil {
		return ""
	}
	for _, line := range manifest.Directives(data) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.Trim(name, "\"`")
		}
	}
	return ""
}

// skippedByGo says that a path is none that ./... matches.
func skippedByGo(name string) bool {
	return borrowed(name) || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return part[0] == '_' || part[0] == '.' })
}

// innerModule says that a folder belongs to a module within the project's.
func (t trees) innerModule(p part, dir string) bool {
	for ; dir != p.dir && dir != "."; dir = path.Dir(dir) {
		if t.base.has(path.Join(dir, "go.mod")) {
			return true
		}
	}
	return false
}

// packageOf is the package clause of a test file that is built without any condition. One with
// conditions may be of a package that is not built here.
func packageOf(source []byte) (string, bool) {
	for line := range bytes.Lines(source) {
		line = bytes.TrimSpace(line)
		if constraint.IsGoBuild(string(line)) || constraint.IsPlusBuild(string(line)) {
			return "", false
		}
		if bytes.HasPrefix(line, []byte("package ")) {
			break
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return "", false
	}
	return f.Name.Name, true
}
