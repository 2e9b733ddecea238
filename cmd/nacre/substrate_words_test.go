package main_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-104, S-09: a task is on behalf of an agent that the ledger knows, or of none.
func TestATasksParentIsKnown(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	files := i.tasks(2)
	child := fileText(files[1])
	for _, parent := range []string{"nobody", "agent-0"} {
		i.write("task1.toml", strings.Replace(child, "agent-id = \"agent-1\"", "agent-id = \"agent-1\"\nparent-agent = \""+parent+"\"", 1))
		i.nacre("task", "run", files[1], "--project", "p", "--recording", rec).want(t, 2, `task.parent-agent is "`+parent+`", and the ledger knows no such agent`)
	}
	hasNo(t, i.nacre("ledger", "list").stdout, "agent-1")
	i.nacre("task", "run", files[0], "--project", "p", "--recording", rec).want(t, 0, "merged")
	other := i.write("other.jsonl", strings.Replace(fileText(rec), "fixed", "fixed again", 1))
	i.nacre("task", "run", files[1], "--project", "p", "--recording", other).want(t, 0, "merged")
	i.nacre("ledger", "show", "agent-1").want(t, 0, "agent-0")
}

// F-101: what a gate refused is counted, and said as it ended: by whom.
func TestTheEndOfARefusedRun(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \"orchestrator-notify\"\n")
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"git push"}}`+"\n")
	r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0, "answered")
	end := finish(t, r)
	end.want(t, 1, "a call was refused, and a person ended the run", "1 denied")
	hasNo(t, end.stdout, "fails fast")
}

// F-100: what a verifier found is shown where it failed, and not in --json alone.
func TestWhyAnAtomDoesNotHold(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", strings.Replace(taskRole, `"safety::no-dep-bump"`, `"quality::constructor-pattern"`, 1))
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"seq 300 >pkg/x/long.txt"}}`+"\n")
	end := i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--check", "true")
	end.want(t, 1, "touched files have at most 200 lines", `"pkg/x/long.txt" has more than 200 lines`, "3 atoms of the role fixer")
}

// F-102: what Python compiles beside the sources is not written, and so not landed.
func TestNoBytecodeLands(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "python3")
	i := install(t)
	i.write("p/mean.py", "def mean(a): return sum(a) / len(a)\n")
	i.write("p/test_mean.py", "import unittest, mean\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(mean.mean([1, 3]), 2)\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"python3 -m unittest && echo tested >>mean.py.txt"}}`+"\n")
	end := i.nacre("run", "test it", "--brain", "replay", "--recording", rec, "--project", "p", "--check", "test -e mean.py.txt")
	end.want(t, 0, "merged")
	hasNo(t, end.stdout, ".pyc")
	hasNo(t, i.git("ls-files"), ".pyc")
}

// F-108: a variable that lifts a gate for hooks says that a run ignores it.
func TestABypassSaysWhereItHolds(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("capability", "show", "policy::no-git-ops").want(t, 0, "lifted for hooks on this machine", "task run ignore it")
	i.nacre("capability", "show", "quality::cargo-check-green").want(t, 0, "where there is no Cargo project") // F-109
}
