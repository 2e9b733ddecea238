package main_test

import (
	"strings"
	"testing"
)

// S-18: in a role that notifies, a refused call asks a person at once, with a
// record that is there before anybody answers; the answer decides about the run.
func TestARefusedCallAsksWhetherTheRunGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb string
		code int
		want string
	}{
		"approved": {"approve", 0, "merged   main"},
		"denied":   {"deny", 1, "a person ended the run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \"orchestrator-notify\"\n")
			i.write("p/pkg/x/x.txt", "broken\n")
			i.project()
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
				`{"tool":"shell","input":{"command":"git push"}}`+"\n"+
				`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
			r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work")
			q := i.question()
			if q.Capability != "task.continue" || !strings.Contains(string(q.Arguments), "policy::no-git-ops") {
				t.Errorf("asked %+v", q)
			}
			if asked := i.records("work"); !strings.Contains(asked, `"kind":"approval.ask"`) {
				t.Errorf("asked without a record:\n%s", asked)
			}
			i.nacre("approvals", c.verb, q.ID).want(t, 0, "answered")
			finish(t, r).want(t, c.code, "! gate   policy::no-git-ops", c.want, "1 asked")
		})
	}
}
