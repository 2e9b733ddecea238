package verify_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/verify"
)

// S-14: all failures of what only reads are reported together. An atom without a verifier is not
// judged, and one whose verifier is not there has failed.
func TestFailuresAreReportedTogether(t *testing.T) {
	s := subject(t, files{"go.mod": "m"}, files{"CLAUDE.md": "x"})
	missing := atom.Atom{ID: "x::y", Verify: atom.Verifier{Handler: "nobody", RunMode: "both"}}
	atoms := []atom.Atom{
		shipped(t, "safety::no-dep-bump"), shipped(t, "scope::no-rule-edits"), shipped(t, "policy::no-git-ops"),
		shipped(t, "tools::bash-allowlist"), shipped(t, "safety::no-dep-bump"), missing,
	}
	report, err := verify.Judge(t.Context(), s, atoms, nil)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range report.Failed {
		failed = append(failed, string(f.Capability)+": "+f.Reason)
	}
	want := "safety::no-dep-bump: manifests or lock files changed\nscope::no-rule-edits: files that instruct or restrain agents changed\nx::y: there is no such verifier"
	if have := strings.Join(failed, "\n"); have != want || report.Passed || len(report.Verdicts) != 4 {
		t.Errorf("have %s\n%+v", have, report)
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.HasPrefix(string(text), `{"passed":false,"failed":[{"capability":"safety::no-dep-bump","reason":"manifests or lock files changed","detail":"`) {
		t.Errorf("%s %v", text, err)
	}
}

// S-04, S-20: every layer that a shipped atom names is there.
func TestEveryShippedLayerIsThere(t *testing.T) {
	list, err := atom.Library{}.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Verify.Handler != "" && !verify.Exists(a.Verify.Handler) || a.Gate.Handler != "" && gate.KindOf(a.Gate.Handler) == gate.Unknown {
			t.Errorf("%s: %q, %q", a.ID, a.Gate.Handler, a.Verify.Handler)
		}
	}
}

// S-14: a report without failures says so in full.
func TestAnEmptyReport(t *testing.T) {
	report, err := verify.Judge(t.Context(), subject(t, files{}, files{}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(report); string(text) != `{"passed":true,"failed":[],"verdicts":[]}` {
		t.Errorf("have %s", text)
	}
}

// S-12: every verifier of a tree also runs in pass 2; one for the merged tree
// alone waits for it.
func TestRunModes(t *testing.T) {
	a := shipped(t, "safety::no-dep-bump")
	for mode, early := range map[string]bool{"worktree": true, "both": true, "simulated-merge": false} {
		a.Verify.RunMode = mode
		s := subject(t, files{}, files{"go.mod": "m"})
		for _, merged := range []bool{false, true} {
			s.Merged = merged
			report, err := verify.Judge(t.Context(), s, []atom.Atom{a}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ran := len(report.Failed) == 1; ran != (early || merged) || len(report.Verdicts) != len(report.Failed) {
				t.Errorf("%s, merged=%v: %+v", mode, merged, report)
			}
		}
	}
}

// A list of changes is a claim like any other.
func TestAListOfChangesThatLies(t *testing.T) {
	base, tree := files{"a": "1", "b": "1"}, files{"a": "2", "b": "1"}
	honest := nacre.Change{Path: "a", Kind: "modified"}
	for name, list := range map[string][]nacre.Change{
		"nothing":               nil,
		"another kind":          {{Path: "a", Kind: "added"}},
		"no kind":               {{Path: "a"}},
		"more than there is":    {honest, {Path: "b", Kind: "modified"}},
		"what is nowhere":       {honest, {Path: "c", Kind: "deleted"}},
		"the same one twice":    {honest, honest},
		"a rename, as one path": {{Path: "a", Kind: "renamed"}},
		"another spelling":      {{Path: "./a", Kind: "modified"}},
	} {
		s := subject(t, base, tree)
		s.Changes = list
		if v := judge(t, "policy::no-git-ops", s); v.Passed || !strings.Contains(v.Reason, "list of changes") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	s := subject(t, base, tree)
	s.Changes = []nacre.Change{honest}
	if v := judge(t, "policy::no-git-ops", s); !v.Passed {
		t.Errorf("%+v", v)
	}
}

// What has the same length, name and time still differs where its bytes do.
func TestBytesAreCompared(t *testing.T) {
	base := files{"a": strings.Repeat("x", 200_000) + "1"}
	s := subject(t, base, files{"a": strings.Repeat("x", 200_000) + "2"})
	info, err := os.Stat(filepath.Join(s.Base, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(s.Tree, "a"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if v := judge(t, "tools::deny-tools", s); v.Passed {
		t.Error("a change of one byte was not seen")
	}
}

// A tree that no checkout makes, or that is not there, has no verdict.
func TestATreeThatCannotBeRead(t *testing.T) {
	for name, prepare := range map[string]func(s *verify.Subject) error{
		"a pipe":             func(s *verify.Subject) error { return syscall.Mkfifo(filepath.Join(s.Tree, "pipe"), 0o644) },
		"a folder not there": func(s *verify.Subject) error { s.Tree += "-not"; return nil },
		"no folder":          func(s *verify.Subject) error { s.Base = ""; return nil },
		"a relative folder":  func(s *verify.Subject) error { s.Base = "."; return nil },
		"nested very deep": func(s *verify.Subject) error {
			return os.MkdirAll(filepath.Join(s.Tree, strings.Repeat("d/", 300)), 0o755)
		},
	} {
		s := subject(t, files{}, files{})
		if err := prepare(&s); err != nil {
			t.Fatal(err)
		}
		report, err := verify.Judge(t.Context(), s, []atom.Atom{shipped(t, "policy::no-git-ops")}, nil)
		if err == nil || report.Passed {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// A caller that gives up gets no verdict.
func TestACallThatIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := verify.Judge(ctx, subject(t, files{}, files{}), []atom.Atom{shipped(t, "policy::no-git-ops")}, nil)
	if err == nil || report.Passed {
		t.Errorf("%+v, %v", report, err)
	}
}
