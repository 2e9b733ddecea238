package verify_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
)

// S-04, S-06: what came back is held to the task's lists.
func TestFilesOutsideTheTask(t *testing.T) {
	base := files{"src/a.go": "a", "src/deep/b.go": "b", ".github/ci.yml": "c", "README.md": "r", "src/link": "link:a.go", "Makefile": "m"}
	for name, c := range map[string]struct {
		edits files
		deny  []string
		want  string // in the detail; empty means that it holds
	}{
		"nothing changed":                          {},
		"a file of the task":                       {edits: files{"src/a.go": "x", "src/new/c.go": "n"}},
		"a file outside":                           {edits: files{"README.md": "x"}, want: `"README.md" was modified`},
		"a deletion outside":                       {edits: files{"README.md": "-"}, want: `"README.md" was deleted`},
		"a rename out of the task":                 {edits: files{"src/a.go": "-", "lib/a.go": "a"}, want: `"lib/a.go" was added`},
		"a rename into the task":                   {edits: files{"README.md": "-", "src/README.md": "r"}, want: `"README.md" was deleted`},
		"a mode outside":                           {edits: files{"Makefile": "exec:m"}, want: `"Makefile" was modified`},
		"line ends outside":                        {edits: files{"README.md": "r\r"}, want: `"README.md"`},
		"an empty file outside":                    {edits: files{"x": ""}, want: `"x" was added`},
		"an empty folder outside":                  {edits: files{"empty": "dir:"}},
		"the folder itself as a file":              {edits: files{"src/a.go": "-", "src/deep/b.go": "-", "src/link": "-", "src": "file"}, want: `"src" was added`},
		"another case":                             {edits: files{"SRC/a.go": "x"}, want: `"SRC/a.go"`},
		"a sibling with the same beginning":        {edits: files{"src-evil/a.go": "x"}, want: `"src-evil/a.go"`},
		"a link out of the project":                {edits: files{"src/l": "link:../../etc/passwd"}, want: `"src/l" was added`},
		"an absolute link":                         {edits: files{"src/l": "link:/etc/passwd"}, want: `"src/l" was added`},
		"an absolute link that looks right":        {edits: files{"src/l": "link:/tree/src/a.go"}, want: `"src/l" was added`},
		"a link to what is outside the task":       {edits: files{"src/l": "link:../README.md"}, want: `a link to "../README.md"`},
		"a link over a link out":                   {edits: files{"src/l": "link:m", "src/m": "link:../.github"}, want: `"src/l"`},
		"a link around in a circle":                {edits: files{"src/l": "link:m", "src/m": "link:l"}, want: `too many links`},
		"a link within the task":                   {edits: files{"src/l": "link:deep/b.go"}},
		"a file that became a link out":            {edits: files{"src/a.go": "link:../.github/ci.yml"}, want: `"src/a.go"`},
		"a folder that became a link out":          {edits: files{"src/deep/b.go": "-", "src/deep": "link:../.github"}, want: `"src/deep" was added`},
		"the denylist within the task":             {edits: files{"src/deep/b.go": "x"}, deny: []string{"src/deep/**"}, want: `denylist`},
		"the denylist below a folder":              {edits: files{"src/deep/b.go": "x"}, deny: []string{"src/deep"}, want: `denylist`},
		"the denylist in another case of its own":  {edits: files{"src/DEEP/b.go": "x"}, deny: []string{"src/deep/**"}, want: `denylist`},
		"the denylist with a blank at its end":     {edits: files{"src/DEEP /b.go": "x"}, deny: []string{"src/deep/**"}, want: `denylist`},
		"a name that cannot be seen":               {edits: files{"src/a\u200b.go": "x"}, want: `cannot be seen`},
		"a name with a line end":                   {edits: files{"src/a\n.go": "x"}, want: `cannot be seen`},
		"a name with a backslash":                  {edits: files{`src\a.go`: "x"}, want: `backslash`},
		"a name that is not UTF-8":                 {edits: files{"src/\xff.go": "x"}, want: `not UTF-8`},
		"a name that begins like a home folder":    {edits: files{"~x": "x"}, want: `"~x"`},
		"a pattern with two readings":              {edits: files{"src/a.go": "x"}, deny: []string{"{a,b}"}, want: `braces`},
		"a denylist whose files are in their base": {deny: []string{"**"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(t, base, edited(base, c.edits))
			s.Task = atom.Parameters{Whitelist: []string{"src/**"}, Denylist: c.deny}
			v := judge(t, "scope::files-whitelist", s)
			if v.Passed != (c.want == "") || !strings.Contains(v.Detail, c.want) {
				t.Errorf("have %+v, want %q", v, c.want)
			}
		})
	}
}

// S-06: an empty whitelist allows nothing; a missing one is a failure.
func TestListsThatAreEmptyOrMissing(t *testing.T) {
	base := files{"a": "1"}
	s := subject(t, base, files{"a": "2"})
	for _, name := range []string{"scope::files-whitelist", "scope::files-denylist"} {
		if v := judge(t, name, s); v.Passed || !strings.Contains(v.Reason, "the task has no") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	s.Task.Whitelist, s.Task.Denylist = []string{}, []string{}
	if v := judge(t, "scope::files-whitelist", s); v.Passed {
		t.Errorf("an empty whitelist let something pass: %+v", v)
	}
	if v := judge(t, "scope::files-denylist", s); !v.Passed {
		t.Errorf("an empty denylist refused: %+v", v)
	}
}

// S-06: the denylist protects names that are one with its own on some system.
func TestDenylistAliases(t *testing.T) {
	base := files{".github/ci.yml": "c", "Cargo.toml": "m", "caf\u00e9/x": "1", "src/a": "a"}
	deny := []string{".github/**", "Cargo.toml", "caf\u00e9/**"}
	for name, held := range map[string]bool{
		".GITHUB/evil.yml": false, ".github./evil.yml": false, ".git\u200chub/evil.yml": false, "cargo.TOML": false, "cafe\u0301/y": false,
		"Cargo.toml ": false, "src/Cargo.toml": true, "CARGO.md": true, "src/.github/x": true, "cafe/y": true,
	} {
		s := subject(t, base, edited(base, files{name: "x"}))
		s.Task.Denylist = deny
		if v := judge(t, "scope::files-denylist", s); v.Passed != held {
			t.Errorf("%q: have %+v, want held=%v", name, v, held)
		}
	}
	s := subject(t, files{"src/a": "a"}, files{"src/a": "a", ".GITHUB/x": "x"})
	s.Task.Denylist = deny
	if v := judge(t, "scope::files-denylist", s); !v.Passed {
		t.Errorf("where there is no .github, .GITHUB is another folder: %+v", v)
	}
}

// S-06: the vectors of the gates, as what came back. What a gate refuses for
// the path alone its verifier refuses as well, and nothing that it allows.
func TestPathVectors(t *testing.T) {
	f, err := os.Open("testdata/paths.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	seen := 0
	for lines := bufio.NewScanner(f); lines.Scan(); seen++ {
		var c struct {
			Atom, Path, Why     string
			Whitelist, Denylist []string
			Held                bool
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		s := subject(t, files{}, files{c.Path: "x"})
		s.Task = atom.Parameters{Whitelist: c.Whitelist, Denylist: c.Denylist}
		if v := judge(t, c.Atom, s); v.Passed != c.Held {
			t.Errorf("%s %q: have %+v, want held=%v: %s", c.Atom, c.Path, v, c.Held, c.Why)
		}
	}
	if seen < 25 {
		t.Errorf("%d vectors only", seen)
	}
}

// S-04: what instructs agents stays.
func TestRuleEdits(t *testing.T) {
	base := files{"CLAUDE.md": "c", "src/a": "a", ".claude/settings.json": "{}"}
	for name, held := range map[string]bool{
		"CLAUDE.md": false, "claude.MD": false, "sub/AGENTS.md": false, ".claude/hooks/x.sh": false, ".nacre/roles/x.toml": false, ".mcp.json": false,
		".github/copilot-instructions.md": false, "src/a": true, "docs/claude.txt": true, "AGENTS.mdx": true, ".claude./x": false,
	} {
		s := subject(t, base, edited(base, files{name: "x"}))
		if v := judge(t, "scope::no-rule-edits", s); v.Passed != held {
			t.Errorf("%q: have %+v, want held=%v", name, v, held)
		}
	}
	s := subject(t, base, edited(base, files{"CLAUDE.md": "-"}))
	if v := judge(t, "scope::no-rule-edits", s); v.Passed {
		t.Error("a rule was deleted")
	}
}

// S-04: dependencies of every ecosystem, unless the task lets them change.
func TestDepBump(t *testing.T) {
	base := files{"go.mod": "m", "Cargo.toml": "c", "x/package-lock.json": "{}", "src/a": "a"}
	for name, held := range map[string]bool{
		"go.mod": false, "x/package-lock.json": false, "new/Cargo.lock": false, "requirements-dev.txt": false, "requirements/base.txt": false, "pom.xml": false, "app/App.csproj": false,
		"x.gemspec": false, "mix.exs": false, "vendor/modules.txt": false, "cargo.TOML": false, "build.gradle.kts": false, "uv.lock": false, "bun.lockb": false,
		"Cargo.toml.bak": true, "MyCargo.toml": true, "src/a": true, "docs/requirements.md": true, "sub/cargo.toml": true, "Go.mod.txt": true,
	} {
		s := subject(t, base, edited(base, files{name: "x"}))
		if v := judge(t, "safety::no-dep-bump", s); v.Passed != held {
			t.Errorf("%q: have %+v, want held=%v", name, v, held)
		}
		s.Task.AllowDepBump = true
		if v := judge(t, "safety::no-dep-bump", s); !v.Passed {
			t.Errorf("%q: refused although the task allows it", name)
		}
	}
	for name, edits := range map[string]files{"deleted": {"go.mod": "-"}, "moved": {"go.mod": "-", "old.mod": "m"}, "made executable": {"go.mod": "exec:m"}, "linked": {"go.mod": "link:src/a"}} {
		if v := judge(t, "safety::no-dep-bump", subject(t, base, edited(base, edits))); v.Passed {
			t.Errorf("go.mod was %s", name)
		}
	}
}

// S-04: the work moves nothing of git's.
func TestGitGames(t *testing.T) {
	base := files{"src/a": "a", ".gitmodules": "m", "fixture/HEAD": "ref: refs/heads/main\n", "fixture/objects/x": "o", "fixture/refs/x": "r"}
	sum := strings.Repeat("0123456789", 4)
	for name, c := range map[string]struct {
		edits files
		held  bool
	}{
		"plain work":                        {files{"src/a": "b", ".gitignore": "x", ".gitattributes": "x", ".gitlab-ci.yml": "x", "git/x": "x"}, true},
		"submodules changed":                {files{".gitmodules": "x"}, false},
		"submodules deleted":                {files{".gitmodules": "-"}, false},
		"submodules in another case":        {files{"sub/.GitModules": "x"}, false},
		"a nested git folder":               {files{"sub/.git/config": "x"}, false},
		"a nested git file":                 {files{"sub/.git": "gitdir: /elsewhere"}, false},
		"an empty git folder":               {files{"sub/.git": "dir:"}, false},
		"a git folder's short name":         {files{"GIT~1/config": "x"}, false},
		"a git folder in another case":      {files{".GiT/config": "x"}, false},
		"a git folder with a dot":           {files{".git./config": "x"}, false},
		"a git folder with a stream":        {files{".git::$INDEX_ALLOCATION/config": "x"}, false},
		"a git folder, hidden":              {files{".g\u200cit/config": "x"}, false},
		"a git folder by a backslash":       {files{`sub\.git\config`: "x"}, false},
		"a bare repository":                 {files{"b/HEAD": "ref: refs/heads/x", "b/objects/a": "x", "b/refs/heads/x": sum, "b/config": "x"}, false},
		"a bare repository in another case": {files{"b/Head": "ref: refs/heads/x", "b/OBJECTS/a": "x", "b/refs./heads/x": sum, "b/config": "x"}, false},
		"a bare repository at the top":      {files{"HEAD": sum, "objects/a": "x", "packed-refs": "x"}, false},
		"a bare repository with a link":     {files{"b/HEAD": "link:x", "b/objects": "link:../o", "b/refs": "link:../r"}, false},
		"a ref of one that was there":       {files{"fixture/refs/heads/main": sum}, false},
		"a HEAD that is none":               {files{"b/HEAD": "hello", "b/objects/a": "x", "b/refs/a": "x"}, true},
		"refs alone":                        {files{"refs/a": "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if v := judge(t, "policy::no-git-ops", subject(t, base, edited(base, c.edits))); v.Passed != c.held {
				t.Errorf("have %+v, want held=%v", v, c.held)
			}
		})
	}
	s := subject(t, base, base)
	s.Left = []string{"target/", "sub/.git/"}
	if v := judge(t, "policy::no-git-ops", s); v.Passed {
		t.Error("a git folder that does not land was not seen")
	}
}

// S-04: deletions are counted; what was moved was not deleted.
func TestMassDelete(t *testing.T) {
	base := files{}
	const letters = "abcdefghijkl"
	for _, r := range letters {
		base["d/"+string(r)] = "content of " + string(r)
	}
	every := func(n int, edit func(name string, to files)) files {
		edits := files{}
		for _, r := range letters[:n] {
			edit(string(r), edits)
		}
		return edits
	}
	remove := func(name string, to files) { to["d/"+name] = "-" }
	for name, c := range map[string]struct {
		edits files
		most  int
		held  bool
	}{
		"ten":                   {every(10, remove), 0, true},
		"eleven":                {every(11, remove), 0, false},
		"two of one":            {every(2, remove), 1, false},
		"eleven, and allowed":   {every(11, remove), 11, true},
		"twelve moved":          {every(12, func(n string, to files) { to["d/"+n], to["e/"+n] = "-", "content of "+n }), 0, true},
		"twelve, one kept copy": {every(12, func(n string, to files) { to["d/"+n], to["copy"] = "-", "content of a" }), 0, false},
		"eleven emptied":        {every(11, func(n string, to files) { to["d/"+n] = "" }), 0, false},
		"eleven linked":         {every(11, func(n string, to files) { to["d/"+n] = "link:x" }), 0, false},
		"eleven rewritten":      {every(11, func(n string, to files) { to["d/"+n] = "other" }), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(t, base, edited(base, c.edits))
			s.Task.MaxDeletes = c.most
			if v := judge(t, "safety::no-mass-delete", s); v.Passed != c.held {
				t.Errorf("have %+v, want held=%v", v, c.held)
			}
		})
	}
}

// S-04: a role that only reads changes nothing.
func TestReadOnly(t *testing.T) {
	base := files{"a": "1", "b": "link:a"}
	if v := judge(t, "tools::deny-tools", subject(t, base, edited(base, files{"empty": "dir:"}))); !v.Passed {
		t.Errorf("%+v", v)
	}
	for _, edits := range []files{{"a": "2"}, {"a": "-"}, {"c": ""}, {"a": "exec:1"}, {"b": "link:c"}} {
		if v := judge(t, "tools::deny-tools", subject(t, base, edited(base, edits))); v.Passed {
			t.Errorf("%v passed", edits)
		}
	}
}
