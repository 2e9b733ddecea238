package main_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// S-12: what is green alone and not together is seen by pass 2: one agent
// renames a function, another calls it by the name that it had.
func TestWorkThatIsGreenAloneAndNotTogetherDoesNotLand(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/lib.sh", "greet() { echo hello; }\n")
	i.write("p/pkg/x/use-a.sh", "greet\n")
	i.write("p/check.sh", "set -e; . ./pkg/x/lib.sh; for f in pkg/x/use-*.sh; do . ./$f; done\n")
	i.project()
	renames := i.write("renames.jsonl", `{"v":1,"name":"a"}`+"\n"+
		`{"tool":"write","input":{"path":"pkg/x/lib.sh","content":"welcome() { echo hello; }\n"}}`+"\n"+
		`{"tool":"write","input":{"path":"pkg/x/use-a.sh","content":"welcome\n"}}`+"\n")
	calls := i.write("calls.jsonl", `{"v":1,"name":"b"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/use-b.sh","content":"greet\n"}}`+"\n")
	files := i.tasks(2)
	for n, rec := range []string{renames, calls} {
		i.nacre("task", "spawn", files[n], "--project", "p", "--recording", rec, "--check", "sh check.sh").want(t, 0, "returned")
	}
	i.nacre("task", "run", "--session", "agent-0").want(t, 0, "merged")
	before := i.git("rev-parse", "HEAD")
	// Alone it holds, which the second line of the checks says; together it does not.
	i.nacre("task", "run", "--session", "agent-1").want(t, 1, "exit 0", "not merged on top of "+before[:7], "check \"sh check.sh\" ended with")
	if after := i.git("rev-parse", "HEAD"); after != before || i.git("status", "--porcelain") != "" {
		t.Errorf("it landed: %s", after)
	}
}

// S-12: a branch that moves while its merge is verified is seen: what lands was
// verified on top of it.
func TestABranchThatMovesDuringPassTwoIsSeen(t *testing.T) {
	t.Parallel()
	i := install(t)
	rec := i.fixable()
	// Pass 2 takes long on top of the first change alone: it is stopped meanwhile.
	check := "[ ! -e mine1.txt ] || [ -e mine2.txt ] || sleep 15"
	i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", check).want(t, 0, "returned")
	move := func(n int) {
		name := fmt.Sprintf("mine%d.txt", n)
		i.write("p/"+name, "mine\n")
		i.git("add", name)
		i.git("commit", "-q", "-m", "mine")
	}
	move(1)
	r := i.begin("task", "run", "--session", "work")
	eventually(t, "pass 2", func() bool { return slices.Contains(i.kept(), "merge-1") })
	r.stands(t) // so that it does not land first
	move(2)
	if err := r.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	finish(t, r).want(t, 0, "merged")
	if kept := i.kept(); !slices.Contains(kept, "verify-merged-2") || !slices.Contains(kept, "land-2") {
		t.Errorf("it was verified on top of what was not there any more: %q", kept)
	}
	if i.git("show", "HEAD:mine2.txt") != "mine" || i.git("show", "HEAD:pkg/x/x.txt") != "fixed" || i.git("status", "--porcelain") != "" {
		t.Error("something is lost")
	}
}
