package verify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/verify"
)

// layOut writes a tree and returns its folder.
func layOut(t testing.TB, tree map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tree {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var (
	digest = strings.Repeat("A", 86) + "=="
	pin    = `"integrity":"sha512-` + digest + `"`
)

// lockText is a lock file with one dependency more than entries.
func lockText(entries string) string {
	return `{"lockfileVersion":3,"packages":{"":{"name":"p"},"node_modules/a":{"resolved":"https://registry.example/a.tgz",` + pin + `}` + entries + `}}`
}

// servers are dependencies that each come from another server.
func servers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"node_modules/s%d":{"resolved":"https://s%d.example/a.tgz",%s}`, i, i, pin)
	}
	return b.String()
}

// S-13: what a lock file names is fetched where all of it is pinned and comes from a registry.
// Everything else is named and not fetched.
func TestWhatALockFileMayName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree map[string]string
		want string // why nothing is fetched; "" where something is
		from string
	}{
		"a lock file":                            {map[string]string{"package-lock.json": lockText("")}, "", "https://registry.example:443"},
		"two registries":                         {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"http://B.example:8080/b.tgz",` + pin + `}`)}, "", "http://b.example:8080 https://registry.example:443"},
		"the file that npm prefers":              {map[string]string{"npm-shrinkwrap.json": lockText(""), "package-lock.json": "{}"}, "", "https://registry.example:443"},
		"a workspace":                            {map[string]string{"w/package.json": "{}", "package-lock.json": lockText(`,"w":{},"node_modules/w":{"link":true,"resolved":"w"}`)}, "", "https://registry.example:443"},
		"a part of another package":              {map[string]string{"package-lock.json": lockText(`,"node_modules/a/node_modules/b":{"inBundle":true}`)}, "", "https://registry.example:443"},
		"a link out of the project":              {map[string]string{"package-lock.json": lockText(`,"node_modules/w":{"link":true,"resolved":"../w"}`)}, "no workspace", ""},
		"a link to what is fetched":              {map[string]string{"package-lock.json": lockText(`,"node_modules/w":{"link":true,"resolved":"node_modules/a"}`)}, "no workspace", ""},
		"a workspace outside":                    {map[string]string{"package-lock.json": lockText(`,"../w":{}`)}, "outside of the project", ""},
		"an absolute place":                      {map[string]string{"package-lock.json": lockText(`,"/node_modules/w":{"resolved":"https://x.example/a.tgz",` + pin + `}`)}, "outside of the project", ""},
		"a place that climbs":                    {map[string]string{"package-lock.json": lockText(`,"node_modules/../../w":{"resolved":"https://x.example/a.tgz",` + pin + `}`)}, "outside of the project", ""},
		"a workspace that is not there":          {map[string]string{"package-lock.json": lockText(`,"w":{}`)}, "w/package.json", ""},
		"git":                                    {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"git+https://g.example/b.git#0",` + pin + `}`)}, "packages of registries", ""},
		"no address":                             {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{` + pin + `}`)}, "packages of registries", ""},
		"sha1":                                   {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://x.example/b.tgz","integrity":"sha1-AAAA"}`)}, "not pinned", ""},
		"an empty digest":                        {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://x.example/b.tgz","integrity":"sha512-"}`)}, "not pinned", ""},
		"a name that npm does not read":          {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://x.example/b.tgz","INTEGRITY":"sha512-` + digest + `"}`)}, "not pinned", ""},
		"a digest that npm cannot read":          {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://x.example/b.tgz","integrity":"sha512-?"}`)}, "not pinned", ""},
		"packages under a name that npm ignores": {map[string]string{"package-lock.json": `{"packages":{"node_modules/a":{"resolved":"https://x.example/a.tgz"}},"Packages":{"node_modules/a":{"resolved":"https://x.example/a.tgz",` + pin + `}}}`}, "not pinned", ""},
		"a part of the project itself":           {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"inBundle":true}`)}, "is in none", ""},
		"a part of a package that is not there":  {map[string]string{"package-lock.json": lockText(`,"node_modules/c/node_modules/b":{"inBundle":true}`)}, "is in none", ""},
		"a part of a workspace":                  {map[string]string{"w/package.json": "{}", "package-lock.json": lockText(`,"w":{},"w/node_modules/b":{"inBundle":true}`)}, "is in none", ""},
		"a part that comes from elsewhere":       {map[string]string{"package-lock.json": lockText(`,"node_modules/a/node_modules/b":{"inBundle":true,"resolved":"https://x.example/b.tgz"}`)}, "not pinned", ""},
		"a repository by https":                  {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://www.GitHub.com/u/b.git#0",` + pin + `}`)}, "packages of registries", ""},
		"a repository by a path of GitLab's":     {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://gitlab.com/u/b/-/%2e%2e",` + pin + `}`)}, "packages of registries", ""},
		"GitLab's registry":                      {map[string]string{"package-lock.json": lockText(`,"node_modules/b":{"resolved":"https://gitlab.com/api/v4/projects/1/packages/npm/b/-/b-1.0.0.tgz",` + pin + `}`)}, "", "https://gitlab.com:443 https://registry.example:443"},
		"a workspace that is a link":             {map[string]string{"w/package.json": "{}", "package-lock.json": lockText(`,"w":{"link":true,"resolved":"../x"}`)}, "no dependency", ""},
		"a package in place of a tool's cache":   {map[string]string{"w/package.json": "{}", "package-lock.json": lockText(`,"w":{},"node_modules/.cache":{"link":true,"resolved":"w"}`)}, "no place of a package", ""},
		"a package among the programs":           {map[string]string{"package-lock.json": lockText(`,"node_modules/.bin":{"resolved":"https://x.example/b.tgz",` + pin + `}`)}, "no place of a package", ""},
		"too many servers":                       {map[string]string{"package-lock.json": lockText(servers(65))}, "servers", ""},
		"an old form":                            {map[string]string{"package-lock.json": `{"lockfileVersion":1,"dependencies":{"a":{"version":"1.0.0"}}}`}, "old form", ""},
		"no JSON":                                {map[string]string{"package-lock.json": `{`}, "no lock file", ""},
		"Yarn":                                   {map[string]string{"yarn.lock": ""}, "yarn.lock is no lock file of npm's", ""},
		"pnpm, in a folder":                      {map[string]string{"web/pnpm-lock.yaml": ""}, "web/pnpm-lock.yaml", ""},
		"a project that keeps its dependencies":  {map[string]string{"package-lock.json": lockText(""), "node_modules/a/index.js": ""}, "", ""},
		"somebody else's lock file":              {map[string]string{"vendor/x/package-lock.json": lockText("")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"package.json": "{}", ".npmrc": "registry=https://evil.example\nlegacy-peer-deps = true\ngit=./evil\nscript-shell=./evil\nignore-scripts=false\ninstall-links=../x\n"}
			maps.Copy(tree, c.tree)
			base := layOut(t, tree)
			from, settings := "", ""
			s := verify.Subject{Base: base, Tree: layOut(t, map[string]string{"package-lock.json": lockText(`,"node_modules/w":{"resolved":"https://work.example/w.tgz",` + pin + `}`)})}
			s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
				from, settings = strings.Join(p.Sources, " "), string(p.Files[".npmrc"])
				return verify.Fetched{Dir: t.TempDir()}, nil
			}
			d, err := s.Dependencies(t.Context())
			if err != nil || from != c.from || (c.want == "") != (d.Absent == "") || !strings.Contains(d.Absent, c.want) {
				t.Errorf("fetched from %q, not because of %q, %v", from, d.Absent, err)
			}
			if from != "" && settings != "legacy-peer-deps=true\n" {
				t.Errorf("npm is told %q", settings)
			}
		})
	}
}

// S-13: what lies where dependencies are shown is none of the base's, and no link
// that stands there leads anywhere.
func TestDependenciesAreShownOverWhatTheWorkPutThere(t *testing.T) {
	t.Parallel()
	outside := layOut(t, map[string]string{"node_modules/kept": "kept"})
	dir := layOut(t, map[string]string{"node_modules/a/forged.js": "", "c/package.json": "{}"})
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "b")), os.Symlink(outside, filepath.Join(dir, "c", "node_modules"))); err != nil {
		t.Fatal(err)
	}
	all := []verify.Module{{Dir: "node_modules"}, {Dir: "b/node_modules"}, {Dir: "c/node_modules"}, {Dir: "gone/node_modules"}}
	shown, err := verify.Prepare(dir, all)
	if err != nil || !slices.Equal(shown, []verify.Module{all[0], all[2]}) {
		t.Errorf("have %v %v", shown, err)
	}
	for _, name := range []string{"node_modules", "c/node_modules"} {
		if entries, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v %v", name, entries, err)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "node_modules", "kept")); err != nil {
		t.Error(err)
	}
}

// S-13: a tree with more lock files than are fetched by is judged without.
func TestTooManyLockFilesAreNoError(t *testing.T) {
	t.Parallel()
	tree := map[string]string{}
	for i := range 17 {
		tree[fmt.Sprintf("examples/%d/package-lock.json", i)] = lockText("")
	}
	s := verify.Subject{Base: layOut(t, tree), Fetch: func(context.Context, verify.Packages) (verify.Fetched, error) {
		t.Error("something is fetched")
		return verify.Fetched{}, nil
	}}
	s.Tree = s.Base
	if d, err := s.Dependencies(t.Context()); err != nil || !strings.Contains(d.Absent, "17 lock files") {
		t.Errorf("have %q %v", d.Absent, err)
	}
}

// S-13: of what npm laid out nothing is shown that lies behind a link.
func TestDependenciesBehindALinkAreNotShown(t *testing.T) {
	t.Parallel()
	outside := layOut(t, map[string]string{"node_modules/kept": "kept"})
	made := layOut(t, map[string]string{"node_modules/a/index.js": ""})
	if err := os.Symlink(outside, filepath.Join(made, "w")); err != nil {
		t.Fatal(err)
	}
	s := verify.Subject{Base: layOut(t, map[string]string{"package.json": "{}", "w/package.json": "{}", "package-lock.json": lockText(`,"w":{}`)})}
	s.Tree = s.Base
	s.Fetch = func(context.Context, verify.Packages) (verify.Fetched, error) { return verify.Fetched{Dir: made}, nil }
	d, err := s.Dependencies(t.Context())
	want := []verify.Module{{Source: filepath.Join(made, "node_modules"), Dir: "node_modules"}}
	if err != nil || !slices.Equal(d.Modules, want) {
		t.Errorf("have %v %v, want %v", d.Modules, err, want)
	}
}

// FuzzLock reads what a hostile repository calls a lock file.
func FuzzLock(f *testing.F) {
	f.Add(lockText(`,"w":{},"node_modules/w":{"link":true,"resolved":"w"}`))
	f.Add(`{"packages":{"node_modules/a":null,"../":{}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := verify.Subject{Base: layOut(t, map[string]string{"package.json": "{}", "package-lock.json": text})}
		s.Tree = s.Base
		s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
			for name := range p.Files {
				if !filepath.IsLocal(name) {
					t.Errorf("npm is given %q", name)
				}
			}
			return verify.Fetched{Absent: "not here"}, nil
		}
		if _, err := s.Dependencies(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// shown runs commands as direct does, with what they are shown in its place.
func shown(ctx context.Context, c verify.Command) (verify.Output, error) {
	for _, m := range c.Modules {
		at := filepath.Join(c.Dir, filepath.FromSlash(m.Dir))
		if err := errors.Join(os.Remove(at), os.Symlink(m.Source, at)); err != nil {
			return verify.Output{}, err
		}
	}
	return direct(0)(ctx, c)
}

// S-13: a compiler that was fetched judges where the base pinned it, and not one
// that the work pinned, even where it may change dependencies.
func TestACompilerThatWasFetchedIsTheBases(t *testing.T) {
	t.Parallel()
	needVerifier(t, "node", "node-check-green")
	lock := func(pin string) string {
		return `{"packages":{"":{},"node_modules/typescript":{"resolved":"https://registry.example/t.tgz","integrity":"sha512-` + pin + `"}}}`
	}
	for name, c := range map[string]struct {
		pin, said string
		fetched   verify.Fetched
		want      string
	}{
		"it finds nothing":         {digest, "", verify.Fetched{}, ""},
		"it finds something":       {digest, "error TS1", verify.Fetched{}, "error TS1"},
		"the work chose another":   {strings.Repeat("B", 86) + "==", "", verify.Fetched{}, "pins another version"},
		"it could not be fetched":  {digest, "", verify.Fetched{Broken: "EINTEGRITY"}, "EINTEGRITY"},
		"its server is not listed": {digest, "", verify.Fetched{Absent: "not on the list"}, "not on the list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"package.json": "{}", "tsconfig.json": "{}", "a.ts": "", "package-lock.json": lock(digest)}
			s := verify.Subject{Base: layOut(t, tree), Scratch: t.TempDir(), Task: atom.Parameters{AllowDepBump: true}}
			tree["package-lock.json"], tree["b.ts"] = lock(c.pin), ""
			s.Tree, s.Changes = layOut(t, tree), []nacre.Change{{Path: "b.ts", Kind: "added"}}
			if c.pin != digest {
				s.Changes = append(s.Changes, nacre.Change{Path: "package-lock.json", Kind: "modified"})
			}
			there := layOut(t, map[string]string{"node_modules/typescript/bin/tsc": "if ('" + c.said + "') { console.log('" + c.said + "'); process.exit(2) }\n"})
			s.Fetch = func(context.Context, verify.Packages) (verify.Fetched, error) {
				if c.fetched != (verify.Fetched{}) {
					return c.fetched, nil
				}
				return verify.Fetched{Dir: there}, nil
			}
			report, err := verify.Judge(t.Context(), s, []atom.Atom{{ID: "quality::node-check-green", Verify: atom.Verifier{Handler: "node-check-green"}}}, shown)
			if err != nil || len(report.Verdicts) != 1 {
				t.Fatalf("have %+v, %v", report, err)
			}
			if v := report.Verdicts[0]; v.Passed != (c.want == "") || !strings.Contains(v.Reason+v.Detail, c.want) {
				t.Errorf("have %+v", v)
			}
		})
	}
}
