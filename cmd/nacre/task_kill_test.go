package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to see how far a run is
)

// taskSteps are the steps of a task's walk whose branch moves while it works,
// in the order in which they are kept.
var taskSteps = []string{
	"clone", "converse", "snapshot", "returned", "verify", "merge-1", "verify-merged-1", "verified-1", "land-1", "record",
}

// kept are the steps that the engine of an installation has kept.
func (i *installation) kept() []string {
	db, err := sql.Open("sqlite", "file:"+i.state("engine.sqlite")+"?mode=ro&_pragma=busy_timeout(1000)")
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it was only read
	rows, err := db.QueryContext(i.t.Context(), `SELECT function_name FROM operation_outputs ORDER BY function_id`)
	if err != nil {
		return nil // it is not made yet
	}
	defer func() { _ = rows.Close() }() // it was only read
	var names []string
	for rows.Next() {
		var name string
		if rows.Scan(&name) == nil {
			names = append(names, name)
		}
	}
	_ = rows.Err() // then fewer were seen, and the next look sees more
	return names
}

// S-12: a task is killed with -9 after any of its steps, and once more when it goes on. It ends
// with one commit on top of a branch that had moved meanwhile, one row that was each thing once,
// and nothing left behind.
func TestATaskKilledAfterEveryStepGoesOn(t *testing.T) {
	t.Parallel()
	for n, step := range append([]string{"nothing"}, taskSteps...) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/.nacre/roles/fixer.toml", taskRole)
			i.write("p/pkg/x/x.txt", "broken\n")
			i.write("p/.gitignore", "go\n")
			i.project()
			base := i.git("rev-parse", "HEAD")
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
				`{"tool":"shell","input":{"command":"until test -e pkg/x/go; do sleep 0.02; done"}}`+"\n"+
				`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
			r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "grep -q fixed pkg/x/x.txt")
			i.killedAfter(r, n, 0, base)
			for more := range 2 { // killed again where it goes on, then left alone
				if _, resumable := i.status(); !resumable {
					break
				}
				before := i.events()
				r = i.begin("task", "run", "--session", "work")
				if more == 0 {
					i.killedAfter(r, n, before, base)
					continue
				}
				i.moves(base)
				stop := i.lets(before)
				have := finish(t, r)
				stop()
				have.want(t, 0, "merged")
			}
			i.landedOnce()
		})
	}
}

// moves the branch, once a run has the commit that it works from.
func (i *installation) moves(base string) {
	i.t.Helper()
	eventually(i.t, "the agent's clone", func() bool { return len(i.kept()) > 0 })
	if i.git("rev-parse", "HEAD") != base {
		return
	}
	i.write("p/mine.txt", "mine\n")
	i.git("add", "mine.txt")
	i.git("commit", "-q", "-m", "mine")
}

// lets the agent go on, once it works in this opening, until stop is called.
func (i *installation) lets(before int) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i.events() == before {
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
		_ = os.WriteFile(i.state("sessions", "work", "work", "pkg", "x", "go"), nil, 0o644) // where it is missing, the test waits in vain
	}()
	return func() { close(over); <-ended }
}

// events is how many events of agents are recorded.
func (i *installation) events() int { return strings.Count(i.records("work"), `"kind":"brain.event"`) }

// killedAfter kills a run when n of its steps are kept, or when it has ended.
func (i *installation) killedAfter(r *running, n, before int, base string) {
	i.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Wait() // it is killed
	}()
	if n > 1 {
		i.moves(base)
		defer i.lets(before)()
	}
	stuck := time.AfterFunc(patience, func() { _ = r.Process.Signal(syscall.SIGQUIT) }) // it says where it hangs
	defer stuck.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for over := false; !over && (len(i.kept()) < n || i.records("work") == ""); {
		select {
		case <-ended:
			over = true
		case <-look.C:
		}
	}
	_ = r.Process.Kill() // it may have ended
	<-ended
	if kept := i.kept(); n > 0 && (len(kept) < n || kept[n-1] != taskSteps[n-1]) {
		i.t.Fatalf("killed after %q, and not after %d steps: %s%s", kept, n, r.stdout.String(), r.stderr.String())
	}
}

// landedOnce holds an installation to what a task leaves that has landed.
func (i *installation) landedOnce() {
	t := i.t
	t.Helper()
	if log := i.git("log", "--format=%s"); strings.Count(log, "Task 0") == 0 || strings.Count(i.git("log", "--first-parent", "--format=%s"), "Task 0") != 1 {
		t.Errorf("have commits %q", log)
	}
	if status := i.git("status", "--porcelain"); status != "" {
		t.Errorf("have %q", status)
	}
	if text, err := os.ReadFile(filepath.Join(i.work, "p/pkg/x/x.txt")); err != nil || string(text) != "fixed\n" {
		t.Errorf("have %q, %v", text, err)
	}
	row := i.nacre("ledger", "show", "agent-0", "--json")
	row.want(t, 0, `"status":"merged"`)
	onceEach(t, row.stdout)
	i.nacre("audit", "verify").want(t, 0)
	if left, _ := filepath.Glob(i.work + "/p/.git/*.lock"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if left, _ := os.ReadDir(i.state("unsettled")); len(left) > 0 {
		t.Errorf("left unsettled: %v", left)
	}
}

// onceEach holds a row to having been each thing once, but for running, which it is
// once more after each interruption (F-96).
func onceEach(t *testing.T, row string) {
	t.Helper()
	count := func(status string) int { return strings.Count(row, `{"status":"`+status+`"`) }
	if count("done") != 1 || count("merged") != 1 || count("running") != 1+count("interrupted") {
		t.Errorf("the row was running %d times, interrupted %d times, done %d times and merged %d times: %s",
			count("running"), count("interrupted"), count("done"), count("merged"), row)
	}
}
