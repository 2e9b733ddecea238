package main_test

import (
	"bytes"
	"database/sql"
	"errors"
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
	rec := i.fixable()
	pass := i.passes()
	i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "sleep 6."+mark).want(t, 0, "returned")
	r := i.begin("task", "audit", "work", "--recording", pass)
	eventually(t, "the check", func() bool { return runningWith("sleep\x006.")(i, mark) })
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	have := finish(t, r)
	have.want(t, 130, "nacre task run --session work")
	if strings.Contains(have.stderr, "before anything was begun") {
		t.Error(have.stderr)
	}
	i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
	i.nacre("task", "merge", "work").want(t, 0, "merged")
}

// S-10: what judges or lands work does not ask for whoever did it.
func TestWhatJudgesAndLandsAsksForNoAgent(t *testing.T) {
	t.Parallel()
	i := install(t)
	rec := i.fixable()
	pass := i.passes()
	i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "returned")
	// What worked there is gone: its recording, and then the brain as such.
	if err := os.Remove(rec); err != nil {
		t.Fatal(err)
	}
	i.nacre("task", "verify", "work").want(t, 0, "verified")
	spec := i.state("sessions/work/run.json")
	text, err := os.ReadFile(spec)
	if err == nil {
		err = os.WriteFile(spec, bytes.Replace(text, []byte(`"brain": "replay"`), []byte(`"brain": "anthropic"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	i.nacre("task", "run", "--session", "work").want(t, 3, "anthropic") // which may have to start one
	i.nacre("task", "verify", "work").want(t, 0, "verified")
	i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
	i.nacre("task", "merge", "work").want(t, 0, "merged")
	i.nacre("audit", "verify").want(t, 0)
}

// S-10: work that the engine has ended without a result is nothing to go on with. Its session says
// so, its row is closed, its files are there, and the next work begins.
func TestWorkThatFailedInTheEngineIsOver(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "CANCELLED"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			rec := i.fixable()
			file := i.tasks(1)[0]
			i.nacre("task", "spawn", file, "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "returned")
			db, err := sql.Open("sqlite", "file:"+i.state("engine.sqlite")+"?_pragma=busy_timeout(10000)")
			if err == nil {
				_, err = db.Exec(`UPDATE workflow_status SET status = ?, error = '"the program changed"'`, status)
			}
			if err = errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			i.nacre("task", "run", "--session", "work").want(t, 1, "not merged", "the work ended without a result", "begin anew", "holds what the agent made")
			if state, resumable := i.status(); resumable || state != "done" {
				t.Errorf("the session is %s, resumable: %v", state, resumable)
			}
			i.nacre("ledger", "show", "agent-0", "--json").want(t, 0, `"status":"failed"`)
			i.nacre("task", "run", "--session", "work").want(t, 2, "no unfinished work")
			if text, err := os.ReadFile(i.state("sessions/work/work/pkg/x/x.txt")); err != nil || string(text) != "fixed\n" {
				t.Errorf("what the agent made is %q, %v", text, err)
			}
			i.nacre("task", "run", file, "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "merged")
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// S-08: no agent is started in the role merger, whatever else is missing: the engine's file,
// or all that it knows of the steps of this work.
func TestTheMergerStartsNoAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forget func(t *testing.T, i *installation)
		want   []string
	}{
		"the engine's file is gone": {
			func(_ *testing.T, i *installation) {
				for _, file := range []string{"engine.sqlite", "engine.sqlite-wal", "engine.sqlite-shm"} {
					_ = os.Remove(i.state(file))
				}
			},
			[]string{"the durable engine's file knows nothing of it", "nacre sessions give-up work"},
		},
		"its steps are forgotten": {
			func(t *testing.T, i *installation) {
				db, err := sql.Open("sqlite", i.state("engine.sqlite"))
				check(t, err)
				gone, err := db.ExecContext(t.Context(), "DELETE FROM operation_outputs")
				check(t, err)
				if n, _ := gone.RowsAffected(); n == 0 {
					t.Fatal("the engine kept no steps")
				}
				check(t, db.Close())
			},
			[]string{"this command starts no agent", "nacre task run --session"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			rec := i.fixable()
			pass := i.passes()
			i.nacre("task", "spawn", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "returned")
			i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
			c.forget(t, i)
			agents, _ := i.opened()
			i.nacre("task", "merge", "work").want(t, 1, c.want...)
			if now, _ := i.opened(); now != agents {
				t.Errorf("an agent was started: %d times before, %d after", agents, now)
			}
		})
	}
}

// fixable makes the project p, in which something is broken, a role for its tasks,
// and the recording of an agent that mends it.
func (i *installation) fixable() (recording string) {
	i.t.Helper()
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	return i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
}

// passes is the recording of an auditor that passes what it is shown.
func (i *installation) passes() (recording string) {
	i.t.Helper()
	return i.write("pass.jsonl", `{"v":1,"name":"pass"}`+"\n"+`{"say":"{\"verdict\":\"pass\",\"summary\":\"fine\",\"findings\":[]}"}`+"\n")
}
