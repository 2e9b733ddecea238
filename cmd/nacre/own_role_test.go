package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// F-95: whatever its whitelist says, an agent does not rewrite its own role, nor what agents of the
// project obey. No task lands it, and a later one is as it was.
func TestATaskDoesNotRewriteItsOwnRole(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/loose.toml", strings.ReplaceAll(taskRole, `name = "fixer"`, `name = "loose"`))
	i.write("p/CLAUDE.md", "be careful\n")
	i.write("p/mk.sh", "printf 'broken' >.nacre/roles/loose.toml; mkdir -p .claude; echo '{}' >.claude/settings.json; echo x >CLAUDE.md; echo fixed >x.txt\n")
	i.write("p/x.txt", "broken\n")
	i.project()
	file := i.write("task.toml", "[task]\nrole = \"loose\"\nagent-id = \"agent-0\"\n[scope]\nfiles-whitelist = [\"**\"]\n[body]\ntext = \"Repair x.\"\n")
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"sh mk.sh"}}`+"\n")
	r := i.nacre("task", "run", file, "--project", "p", "--recording", rec)
	r.want(t, 1, "modified .nacre/roles/loose.toml   ← look: nacre obeys it", "not merged it waits for a person", "2 more")
	role, err := os.ReadFile(filepath.Join(i.work, "p/.nacre/roles/loose.toml"))
	if err != nil || !strings.Contains(string(role), "no-git-ops") {
		t.Errorf("the role is %s", role)
	}
}

// F-99: a gate that warns is seen by the agent and the person, and one that advises stands in the
// record. Neither is a refusal: not even a role that fails fast ends for it.
func TestGatesThatWarnAndAdviseLeaveATrace(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", strings.Replace(taskRole, `"policy::no-git-ops"`, `"policy::no-git-ops", "team::no-sleep", "team::no-sort"`, 1)+"[escalation]\npolicy = \"fail-fast\"\n")
	for name, severity := range map[string]string{"sleep": "warn", "sort": "advisory"} {
		folder := "p/.nacre/capabilities/team/no-" + name
		i.write(folder+"/capability.toml", "[capability]\nname = \"team::no-"+name+"\"\ncategory = \"team\"\nversion = \"1.0\"\ndescription = \"no "+name+
			"\"\n[restricts]\ntool-patterns = ['^"+name+"( |$)']\n[gate]\nevent = \"PreToolUse:Bash\"\nseverity = \""+severity+"\"\n")
		i.write(folder+"/text.md", "Do not run "+name+".\n")
	}
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"sleep 0.01"}}`+"\n"+
		`{"tool":"shell","input":{"command":"sort pkg/x/x.txt"}}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	r := i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work")
	r.want(t, 0, "a warning: team::no-sleep", "merged   main", "0 denied")
	if strings.Contains(r.stdout+r.stderr, "team::no-sort:") {
		t.Errorf("what only advises is shown:\n%s%s", r.stdout, r.stderr)
	}
	told := i.told("work")
	if have := strings.Count(told, `"kind":"gate.warn"`); have != 2 || strings.Contains(told, `"kind":"gate.refuse"`) {
		t.Errorf("%d warnings are recorded:\n%s", have, told)
	}
	i.nacre("audit", "show", "work").want(t, 0, "The gates of its role warn of Bash, which happened: team::no-sort")
}
