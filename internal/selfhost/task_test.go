package selfhost_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// tester is a role of this repository's own, as a project adds one.
const tester = `[role]
name = "tester"
display-name = "writes tests"
description = "Adds tests to one package."
[capabilities]
required = ["policy::no-git-ops", "scope::files-whitelist", "safety::no-dep-bump", "output::severity-grade"]
[tools]
allowed = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
[escalation]
policy = "ask-via-return"
`

const testerTask = `[task]
role = "tester"
agent-id = "policy-default"
[scope]
files-whitelist = ["policy/**"]
[verification]
commands = ["go test -trimpath -vet=off -count=1 ./policy"]
[body]
text = "Test the default of the shipped policy."
`

func tool(t *testing.T, name string, input map[string]string) scriptedmodel.Tool {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return scriptedmodel.Tool{Name: name, Input: raw}
}

// S-04, S-10, S-12, S-14: a task of the substrate on this repository, with the
// real Claude Code. The prompt says what it may do, the gates tell the model no
// before its calls, the atoms judge what came back, and the verified change lands.
func TestClaudeCodeCarriesATaskOut(t *testing.T) {
	t.Parallel()
	truth := true
	test := `package policy_test

import (
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

func TestWhatIsShippedDoesNotAllowByDefault(t *testing.T) {
	if have := policy.Shipped().Default(); have == nacre.Allow {
		t.Errorf("have %v", have)
	}
}
`
	o := newOffice(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{
			Expect: &scriptedmodel.Expect{Contains: []string{"## No git operations", "policy/**", "Test the default of the shipped policy."}},
			Tools:  []scriptedmodel.Tool{tool(t, "Bash", map[string]string{"command": "git stash", "description": "Begin clean"})},
		},
		{
			Expect: &scriptedmodel.Expect{Contains: []string{"nacre gate: policy::no-git-ops"}, Error: &truth},
			Tools:  []scriptedmodel.Tool{tool(t, "Write", map[string]string{"file_path": "/workspace/README.md", "content": "mine"})},
		},
		{
			Expect: &scriptedmodel.Expect{Contains: []string{"nacre gate: scope::files-whitelist"}, Error: &truth},
			Tools:  []scriptedmodel.Tool{tool(t, "Write", map[string]string{"file_path": "/workspace/policy/selfhost_test.go", "content": test})},
		},
		{Tools: []scriptedmodel.Tool{tool(t, "Bash", map[string]string{"command": "go test -trimpath -vet=off ./policy", "description": "Run the tests"})}},
		{
			Expect: &scriptedmodel.Expect{Contains: []string{"ok  \tgithub.com/nacre-dev/nacre/policy"}},
			Text:   "---\nseverity: LOW\n---\nThe default of the shipped policy has a test.",
		},
	}})
	o.commit(t, map[string]string{".nacre/roles/tester.toml": tester})
	o.base = o.git(t, "rev-parse", "HEAD")
	file := filepath.Join(o.home, "task.toml")
	if err := os.WriteFile(file, []byte(testerTask), 0o600); err != nil {
		t.Fatal(err)
	}
	done := o.run(t, "task", "run", file, "--project", o.project, "--json")
	r := o.landed(t, done, o.base)
	o.asExpected(t)
	o.keyless(t, done)
	if have := o.git(t, "diff", "--name-status", o.base, "HEAD"); have != "A\tpolicy/selfhost_test.go" {
		t.Errorf("landed: %s", have)
	}
	if have := o.git(t, "log", "-1", "--format=%s"); have != "Test the default of the shipped policy." {
		t.Errorf("the commit says %q", have)
	}
	if len(r.Atoms) != 4 || r.Session != "policy-default" {
		t.Errorf("have %+v of session %s", r.Atoms, r.Session)
	}
	row := o.run(t, "ledger", "show", "policy-default", "--json")
	if row.code != 0 || !strings.Contains(row.stdout, `"status":"merged"`) {
		t.Errorf("the ledger says %s%s", row.stdout, row.stderr)
	}
	if n := len(o.records(t, r.Session, nacre.KindLedger)); n != 3 {
		t.Errorf("have %d records of the ledger, want 3: running, done, merged", n)
	}
}
