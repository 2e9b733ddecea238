package role_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/role"
)

func resolve(t *testing.T, l role.Library, name string) role.Resolved {
	t.Helper()
	r, err := l.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// S-10: fragments in the role's order, the scope block, the body last, and
// between them the separator; the same bytes every time.
func TestCompose(t *testing.T) {
	l := project(map[string]string{"team": made("team", "[capabilities]\nrequired = [\"team::no-svn\", \"policy::no-git-ops\"]\n[tools]\nallowed = [\"Read\", \"Bash\"]\nbash-patterns-allowed = ['^ls( |$)']\n")})
	task := atom.Task{
		Parameters: atom.Parameters{Role: "team", AgentID: "a1", Whitelist: []string{"src/**", "a`b"}, Denylist: []string{"go.mod"}, ReportFields: []string{"summary"}},
		Body:       "\nFix it.\r\nThen stop.\n\n",
	}
	git, err := l.Atoms().Find("policy::no-git-ops")
	if err != nil {
		t.Fatal(err)
	}
	want := "You MUST NOT run svn.\n\n---\n\n" + strings.TrimSpace(git.Text) + "\n\n---\n\n" + `## Scope of this task

Files you may write, and no others:

- ` + "`src/**`" + `
- ` + "`` a`b ``" + `

Files you must leave alone, whatever else is allowed:

- ` + "`go.mod`" + `

Tools you may use, and no others:

- ` + "`Read`" + `
- ` + "`Bash`" + `

Shell commands you may run match one of these patterns, from the first word:

- ` + "`^ls( |$)`" + `

Fields that your report must have, each with a value:

- ` + "`summary`" + "\n\n---\n\nFix it.\nThen stop.\n"
	for range 3 {
		have, err := role.Compose(resolve(t, l, "team"), task)
		if err != nil || have != want {
			t.Fatalf("have %q, want %q, %v", have, want, err)
		}
	}
}

// S-10: what a task leaves out is said, not left to be guessed.
func TestComposeWithoutLists(t *testing.T) {
	l := project(map[string]string{
		"bare": made("bare", "[capabilities]\nrequired = [\"team::no-svn\"]\n"),
		"mute": made("mute", "[capabilities]\nrequired = [\"scope::files-whitelist\"]\n[tools]\nbash-patterns-allowed = []\n"),
	})
	for name, want := range map[string]string{"bare": "This task adds no limits", "mute": "Files you may write: none.\n\nShell commands you may run: none."} {
		prompt, err := role.Compose(resolve(t, l, name), atom.Task{Parameters: atom.Parameters{Role: name}, Body: "x"})
		if err != nil || !strings.Contains(prompt, want) || !strings.HasSuffix(prompt, "\n\n---\n\nx\n") {
			t.Errorf("%s: %q, %v", name, prompt, err)
		}
	}
	if _, err := role.Compose(resolve(t, l, "bare"), atom.Task{Parameters: atom.Parameters{Role: "mute"}, Body: "x"}); err == nil {
		t.Error("a task is composed in another role than its own")
	}
}

// S-10: what an orchestrator gets to start an agent by itself.
func TestPrepare(t *testing.T) {
	task := atom.Task{Parameters: atom.Parameters{Role: "edit-shared", AgentID: "agent-0123456789"}, Parent: "root", Body: "x"}
	have, err := role.Prepare(resolve(t, role.Library{}, "edit-shared"), task, "nacre task verify t", "dna")
	if err != nil {
		t.Fatal(err)
	}
	prompt, _ := role.Compose(resolve(t, role.Library{}, "edit-shared"), task) // Prepare had it without an error
	want := role.Invocation{
		AgentID: "agent-0123456789", SubagentType: "code-implementer", Isolation: "worktree", Description: "edit-shared agent agent-012345", Prompt: prompt,
		VerifyCommand: "nacre task verify t", LedgerRow: "running agent-id=agent-0123456789 role=edit-shared parent=root", DNA: "dna", SpecSHA: task.SpecSHA(),
	}
	if have != want {
		t.Errorf("have %+v, want %+v", have, want)
	}
	task.AgentID = ""
	if _, err := role.Prepare(resolve(t, role.Library{}, "edit-shared"), task, "", ""); err == nil {
		t.Error("prepared without an id")
	}
}

// S-10: the seed's table, and a role of a project that has no place in it.
func TestSubagentTypes(t *testing.T) {
	l := project(map[string]string{
		"mine":   made("mine", "[capabilities]\nextends = \"edit-local\"\n"),
		"named":  made("named", "claude-subagent-type = \"architect\"\nisolation = \"none\"\n[capabilities]\nextends = \"edit-local\"\n"),
		"nobody": made("nobody", ""),
	})
	for name, want := range map[string][]string{"mine": {"code-implementer", "worktree"}, "named": {"architect", "none"}, "nobody": {"general-purpose", "none"}} {
		if r := resolve(t, l, name); !slices.Equal([]string{r.SubagentType, r.Isolation}, want) {
			t.Errorf("%s: have %s %s, want %v", name, r.SubagentType, r.Isolation, want)
		}
	}
}

// A limit that nothing enforces is named.
func TestUnheld(t *testing.T) {
	task := atom.Task{Parameters: atom.Parameters{Role: "read-only", Whitelist: []string{"a"}, Denylist: []string{"b"}, ReportFields: []string{"c"}}}
	if have := role.Unheld(resolve(t, role.Library{}, "read-only"), task); len(have) != 2 {
		t.Errorf("have %q", have)
	}
	if have := role.Unheld(resolve(t, role.Library{}, "edit-local"), task); len(have) != 0 {
		t.Errorf("have %q", have)
	}
}

// S-09: a resolved role can be kept with the task that was pinned, and holds
// the same after it was read back.
func TestResolvedIsKept(t *testing.T) {
	for _, name := range []string{"read-only", "explorer", "edit-local", "edit-shared", "auditor"} {
		r := resolve(t, role.Library{}, name)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var kept role.Resolved
		if err := json.Unmarshal(data, &kept); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(kept)
		if err != nil || string(again) != string(data) || !slices.Equal(kept.Tools, r.Tools) || len(kept.Commands) != len(r.Commands) {
			t.Errorf("%s: %s, %v", name, again, err)
		}
		task := atom.Task{Parameters: atom.Parameters{Role: name}, Body: "x"}
		before, err1 := role.Compose(r, task)
		after, err2 := role.Compose(kept, task)
		if err1 != nil || err2 != nil || before != after {
			t.Errorf("%s: %v %v", name, err1, err2)
		}
	}
}

func FuzzRole(f *testing.F) {
	f.Add("[capabilities]\nextends = \"edit-local\"\nrelaxes = [\"quality::tests-green\"]\n", "do it")
	f.Add("[tools]\nallowed = [\"*\"]\nbash-patterns-allowed = []\n", "`")
	f.Fuzz(func(t *testing.T, source, body string) {
		r, err := project(map[string]string{"x": made("x", source)}).Resolve("x")
		if err != nil || !r.Spawnable {
			return
		}
		if r.Tools != nil && len(r.Tools) == 0 {
			t.Error("no tools, which a gate takes for no limit")
		}
		task := atom.Task{Parameters: atom.Parameters{Role: "x", AgentID: "a"}, Body: body}
		first, err := role.Compose(r, task)
		if second, _ := role.Compose(r, task); err != nil || first != second {
			t.Error("composed in two ways", err)
		}
	})
}

// BenchmarkCompose is a task's role resolved and its prompt composed. The floor
// is reading the same atoms.
func BenchmarkCompose(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			for _, id := range localAtoms {
				if _, err := (atom.Library{}).Find(id); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		task := atom.Task{Parameters: atom.Parameters{Role: "edit-local"}, Body: "x"}
		for b.Loop() {
			r, err := role.Library{}.Resolve("edit-local")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := role.Compose(r, task); err != nil {
				b.Fatal(err)
			}
		}
	})
}
