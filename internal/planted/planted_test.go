package planted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/planted"
)

// M-13, F-04, F-05, F-14: what obeys a file is said with its program.
func TestAFileIsToldWithWhoObeysIt(t *testing.T) {
	for name, want := range map[string]string{
		"Makefile": "make runs what it says", "sub/.envrc": "direnv runs what it says", "CLAUDE.md": "Claude Code obeys it",
		"main.d": "make, where a Makefile includes it, runs what it says", ".git/config": "git obeys it", "conftest.py": "pytest", "CMakeCache.txt": "CMake runs",
		"_json.py": "Python imports it", "_bisect.so": "Python imports it", "build.py": "Python imports it", "flask.py": "Python imports it", "django/__init__.py": "Python imports it",
		"sphinx.py": "Python imports it", "pre_commit.py": "Python imports it", "JSON.PY": "Python imports it",
		"a.o": "build output", "libs/x.jar": "build output", "lib/libssl.so.3": "build output", "data.pickle": "build output", "bin/tool": "build output", "dist/a.js": "build output",
		"-rf": "option", ".unknown": "begins with a dot",
	} {
		if have := planted.Classify(name).Reason(); !strings.Contains(have, want) {
			t.Errorf("%s: have %q, want %q", name, have, want)
		}
	}
	for _, name := range []string{"main.go", "lib/json.py", "lib/_json.py", "src/bin/main.rs", "src/index.js", "README.md", ".pytest_cache/.gitignore", "docs/x.txt"} {
		if c := planted.Classify(name); c.Kind != planted.None || c.Reason() != "" {
			t.Errorf("%s: have %+v", name, c)
		}
	}
}

func TestEachKindHasANameAndAReason(t *testing.T) {
	for kind := planted.Git; kind <= planted.Hidden; kind++ {
		text, err := json.Marshal(planted.Found("x", planted.Class{Kind: kind, Program: "make"}))
		var back planted.Finding
		if err != nil || json.Unmarshal(text, &back) != nil || back.Kind != kind || back.Reason == "" {
			t.Errorf("%d: %s, %+v, %v", kind, text, back, err)
		}
	}
	var none planted.Kind
	if none.UnmarshalText([]byte("unheard of")) == nil || (planted.Class{}).Reason() != "" {
		t.Error("what is not known has a meaning")
	}
}

// F-06: each finding counts in one group, and the groups are few.
func FuzzGroups(f *testing.F) {
	f.Add("a/Makefile\n.envrc\nb/c/d/x.so\n-rf\ntarget/\n.")
	f.Fuzz(func(t *testing.T, paths string) {
		var findings []planted.Finding
		for path := range strings.SplitSeq(paths, "\n") {
			if c := planted.Classify(path); c.Kind != planted.None {
				findings = append(findings, planted.Found(path, c))
			}
		}
		count := 0
		for _, g := range planted.Groups(findings) {
			count += g.Count
			if g.String() == "" || len(g.Reasons) == 0 || len(g.Names) == 0 {
				t.Errorf("a group says nothing: %+v", g)
			}
		}
		if count != len(findings) {
			t.Errorf("%d findings, %d in groups", len(findings), count)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	names := []string{"src/internal/server/handler.go", "web/app/components/Button.tsx", "Makefile", "docs/guide/start.md"}
	for b.Loop() {
		for _, name := range names {
			planted.Classify(name)
		}
	}
}
