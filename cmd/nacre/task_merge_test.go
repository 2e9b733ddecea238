package main_test

import (
	"os"
	"strings"
	"testing"
)

// opened is how often a session's agent was started, and how many chains it has.
func (i *installation) opened() (agents, chains int) {
	records := i.records("work")
	return strings.Count(records, `"kind":"sandbox.start"`), strings.Count(records, `"kind":"chain.open"`)
}

// S-08: what no auditor has judged the merger refuses before anything begins: an
// agent that was killed at its work is not started again for it.
func TestTheMergerRefusesBeforeAnythingBegins(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n"+
		`{"tool":"shell","input":{"command":"sleep 600"}}`+"\n")
	r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true")
	eventually(t, "the agent's call", func() bool { return i.events() > 1 })
	_ = r.Process.Kill() // it may have ended
	_ = r.Wait()
	agents, chains := i.opened()
	i.nacre("task", "merge", "work").want(t, 1, "not merged no auditor has judged this work", "nacre task audit work")
	i.nacre("task", "audit", "work", "--brain", "cluade").want(t, 2, "cluade")
	if a, c := i.opened(); a != agents || c != chains {
		t.Errorf("have %d agents in %d openings, want %d in %d", a, c, agents, chains)
	}
	if _, resumable := i.status(); !resumable {
		t.Error("the work is lost")
	}
}

// S-08: an audit that is interrupted while the work is verified says so, and how
// the work goes on.
func TestAnInterruptedAuditGoesOn(t *testing.T) {
	t.Parallel()
	i, mark := install(t), marker()
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	pass := i.write("pass.jsonl", `{"v":1,"name":"pass"}`+"\n"+`{"say":"{\"verdict\":\"pass\",\"summary\":\"fine\",\"findings\":[]}"}`+"\n")
	i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "sleep 6."+mark).want(t, 0, "returned")
	r := i.begin("task", "audit", "work", "--recording", pass)
	eventually(t, "the check", func() bool { return runningWith("sleep\x006.")(i, mark) })
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	have := finish(t, r)
	have.want(t, 130, "nacre run --session work")
	if strings.Contains(have.stderr, "before anything was begun") {
		t.Error(have.stderr)
	}
	i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
	i.nacre("task", "merge", "work").want(t, 0, "merged")
}

// S-08: no agent is started in the role merger, whatever else is missing.
func TestTheMergerStartsNoAgent(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	pass := i.write("pass.jsonl", `{"v":1,"name":"pass"}`+"\n"+`{"say":"{\"verdict\":\"pass\",\"summary\":\"fine\",\"findings\":[]}"}`+"\n")
	i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "returned")
	i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
	for _, file := range []string{"engine.sqlite", "engine.sqlite-wal", "engine.sqlite-shm"} {
		_ = os.Remove(i.state(file)) // all steps are forgotten
	}
	agents, _ := i.opened()
	i.nacre("task", "merge", "work").want(t, 1, "starts no agent")
	if now, _ := i.opened(); now != agents {
		t.Errorf("an agent was started: %d times before, %d after", agents, now)
	}
}
