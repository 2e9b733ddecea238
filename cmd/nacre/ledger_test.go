package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/ledger"
)

// S-15, M-50: the ledger by its face.
func TestLedger(t *testing.T) {
	t.Parallel()
	i := install(t)
	path := filepath.Join(i.work, "home/.local/state/nacre", ledger.FileName)
	if r := i.nacre("ledger", "list"); r.code != 0 || strings.Contains(r.stdout, "a1") {
		t.Errorf("an empty ledger: %+v", r)
	}
	if r := i.nacre("ledger", "show", "a1"); r.code != 1 || !strings.Contains(r.stderr, "no such run") {
		t.Errorf("%+v", r)
	}
	name := seedLedger(t, path)
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"ledger list", 0, []string{"a1", "merged", "held (strong check)", "$0.0012", "Did it. …", "a2", "failed", "held (weak check: does not count)", "Ran \\u009b"}},
		{"ledger list --status failed", 0, []string{"a2"}},
		{"ledger list --status merged --json", 0, []string{`"id":"a1"`, `"outcome":{"verdict":"held","by":"strong","counts":true}`}},
		{"ledger list --dna edit-local::NG", 0, []string{"a1", "a2"}},
		{"ledger list --dna x", 0, []string{"agent"}},
		{"ledger list --status fine", 2, []string{"no status"}},
		{"ledger list --limit 0", 2, []string{"--limit"}},
		{"ledger tree", 0, []string{"a1  edit-local  merged, held (strong check), on behalf of root\n  a2  edit-local  failed"}},
		{"ledger tree --json", 0, []string{`"children":[{"id":"a2"`}},
		{"ledger descendants a1", 0, []string{"a2"}},
		{"ledger descendants nobody", 1, []string{"no such run"}},
		{"ledger show a1", 0, []string{"verified held (strong check)", "recorded", "chain session-x, record 9, ff00", "main at abc", "files-whitelist = [\"a/**\"]", name}},
		{"ledger show " + name, 0, []string{"agent    a1"}},
		{"ledger show a1 --prompt", 0, []string{"You MUST.\n"}},
		{"ledger show a1 --json", 0, []string{`"changes":[{"status":"running"`, `"anchor":{"chain":"session-x","seq":7,"hash":"ff00"}`, `"prompt":"You MUST.\n"`}},
	} {
		r := i.nacre(strings.Fields(c.args)...)
		if r.code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.args, r.code, c.code, r.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("%s: %q is missing in\n%s%s", c.args, want, r.stdout, r.stderr)
			}
		}
	}
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	if r := i.nacre("ledger", "list"); r.code != 3 || !strings.Contains(r.stderr, "damaged: restore the file from a backup") {
		t.Errorf("a damaged ledger: %+v", r)
	}
}

// seedLedger writes two runs, and returns the first one's DNA.
func seedLedger(t *testing.T, path string) string {
	t.Helper()
	l, err := ledger.Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	anchor := func(seq uint64) ledger.Anchor { return ledger.Anchor{Chain: "session-x", Seq: seq, Hash: "ff00"} }
	begin := func(id, parent string, nonce byte) (string, error) {
		task := atom.Task{Parameters: atom.Parameters{Role: "edit-local", AgentID: id, Whitelist: []string{"a/**"}, Denylist: []string{}}, Parent: parent, Body: "do it"}
		name := dna.Compose(task, []atom.Atom{{ID: "policy::no-git-ops"}}, [4]byte{nonce}).String()
		return name, l.Begin(t.Context(), ledger.Start{ID: id, Role: "edit-local", Parent: parent, Task: task.Canonical(), SpecSHA: task.SpecSHA(), Prompt: "You MUST.\n", DNA: name, Anchor: anchor(7)})
	}
	name, err1 := begin("a1", "root", 1)
	_, err2 := begin("a2", "a1", 2)
	err = errors.Join(err1, err2,
		l.Finish(t.Context(), "a1", ledger.End{Status: ledger.Done, Summary: "Did it.\nAll of it.", CostMicroUSD: 1234, Outcome: ledger.StrongCheck(true), Anchor: anchor(8)}),
		l.Merge(t.Context(), "a1", ledger.Landing{Reason: "main at abc", Anchor: anchor(9)}),
		l.Finish(t.Context(), "a2", ledger.End{Status: ledger.Failed, Summary: "Ran \u009b2J", Outcome: ledger.WeakCheck(true), Anchor: anchor(10)}),
		l.Close())
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// F-103: work that stayed on a branch of its own is merged in the ledger too, once a person has
// merged it or applied it. It is rejected where they threw it away.
func TestWhatAPersonTakesIsMergedInTheLedger(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		take func(i *installation)
		want ledger.Status
	}{
		"left alone": {func(*installation) {}, ledger.Done},
		"merged":     {func(i *installation) { i.git("checkout", "-q", "."); i.git("merge", "-q", "nacre/work") }, ledger.Merged},
		"merged and deleted": {func(i *installation) {
			i.git("checkout", "-q", ".")
			i.git("merge", "-q", "nacre/work")
			i.git("branch", "-q", "-d", "nacre/work")
		}, ledger.Merged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := desk(t, holdTools)
			i.write("p/.nacre/roles/fixer.toml", taskRole)
			i.write("p/pkg/x/x.txt", "broken\n")
			i.git("add", "-A")
			i.git("commit", "-q", "-m", "role")
			i.write("p/pkg/x/x.txt", "mine\n")
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
			i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "grep -q fixed pkg/x/x.txt").want(t, 1, "nacre/work")
			c.take(i)
			for range 2 {
				if have := i.rows(); len(have) != 1 || have[0] != c.want {
					t.Errorf("have %q, want %s", have, c.want)
				}
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// U-25, F-96, F-128: each run and each visit has one row in the ledger with one end, whatever ended
// it. That holds where its session is used again or removed, too, and who looks twice finds the
// same.
func TestTheLedgerHoldsEveryRunAndVisit(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"new.txt","content":"new\n"}}`+"\n")
	i.nacre("exec", "-q", "--session", "again", "--", "false").want(t, 1)
	i.nacre("exec", "-q", "--session", "again", "--", "true").want(t, 0)
	i.nacre("run", "add a file", "--project", "p", "--recording", rec, "--session", "adds", "--check", "grep -q new new.txt").want(t, 0, "merged")
	killed := i.begin("exec", "-q", "--project", "p", "--session", "killed", "--", "sh", "-c", "touch ready; sleep 600")
	eventually(t, "a command that runs", func() bool { return isThere(filepath.Join(i.work, "p/ready")) })
	hasRows(t, i, "killed.1 running , adds.1 merged held, again.2 done , again.1 failed ")
	_ = killed.Process.Kill()
	finish(t, killed)
	i.nacre("sessions", "rm", "adds").want(t, 0)
	for range 2 {
		hasRows(t, i, "killed.1 failed , adds.1 merged held, again.2 done , again.1 failed ")
	}
	i.nacre("ledger", "show", "adds").want(t, 0, "add a file", "recorded", "chain adds.1")
	i.nacre("exec", "-q", "--", "true").want(t, 0) // it seals what the killed one left
	i.nacre("audit", "verify").want(t, 0)
}

// hasRows compares the rows of the ledger, the latest first.
func hasRows(t *testing.T, i *installation, want string) {
	t.Helper()
	var list []struct {
		ID      string
		Status  ledger.Status
		Outcome struct{ Verdict string }
	}
	r := i.nacre("ledger", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	rows := make([]string, 0, len(list))
	for _, row := range list {
		rows = append(rows, row.ID+" "+string(row.Status)+" "+row.Outcome.Verdict)
	}
	if have := strings.Join(rows, ", "); have != want {
		t.Errorf("have %s\nwant %s\n%s", have, want, r.stderr)
	}
}

// U-25: a run that was killed and went on has one row, also where nobody looked between its
// openings, and where a person gave it up.
func TestARunOfManyOpeningsHasOneRow(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(i *installation){
		"work.1 failed ": func(i *installation) { i.nacre("sessions", "give-up", "work").want(i.t, 0) },
		"work.1 merged held": func(i *installation) {
			i.letsHold("on")
			i.nacre("run", "--session", "work").want(i.t, 0, "merged")
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			i := desk(t, holdTools)
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"echo new >new.txt; ipc hold '{\"name\":\"on\"}'"}}`+"\n")
			args := []string{"run", "add a file", "--project", "p", "--recording", rec, "--session", "work", "--check", "true"}
			for n := range 3 {
				r := i.begin(args...)
				eventually(t, "the agent to wait", func() bool { return strings.Count(i.done(), "began on") == n+1 })
				_ = r.Process.Kill()
				finish(t, r)
				if args = []string{"run", "--session", "work"}; n == 0 {
					i.nacre("ledger", "list").want(t, 0, "interrupted")
				}
			}
			end(i)
			for range 2 {
				hasRows(t, i, want)
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}
