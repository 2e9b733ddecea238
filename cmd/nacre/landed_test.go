package main_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/ledger"
)

// holdLedger keeps everybody from writing to the ledger until it is let go: what a run says at its
// end waits for it.
func (i *installation) holdLedger() (letGo func()) {
	i.t.Helper()
	i.nacre("ledger", "list").want(i.t, 0) // it is there
	db, err := sql.Open("sqlite", "file:"+i.state("ledger.sqlite")+"?_pragma=busy_timeout(60000)")
	check(i.t, err)
	conn, err := db.Conn(context.Background())
	check(i.t, err)
	_, err = conn.ExecContext(i.t.Context(), "BEGIN IMMEDIATE")
	check(i.t, err)
	over := false
	letGo = func() {
		if over {
			return
		}
		over = true
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		check(i.t, err)
		check(i.t, conn.Close())
		check(i.t, db.Close())
	}
	i.t.Cleanup(letGo)
	return letGo
}

// atWork waits until the agent of a session has said that it works, and lets it go on.
const atWork = "mkdir -p said/x; touch said/x/ready; until ls said/x | grep -qx go; do sleep 0.02; done; rm -r said"

func (i *installation) works(session string) bool {
	return session != "" && isThere(filepath.Join(i.workspace(session), "said/x/ready"))
}

func (i *installation) goOn(session string) {
	i.t.Helper()
	check(i.t, os.WriteFile(filepath.Join(i.workspace(session), "said/x/go"), nil, 0o666))
}

// U-25, S-12: work that has landed is merged in the ledger, and its receipt says by which commit,
// whatever ends its session before it could say so.
func TestWorkThatLandedBeforeItsSessionEndedIsMerged(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(i *installation, r *running){
		"kill -9":       func(_ *installation, r *running) { _ = r.Process.Kill() },
		"sessions stop": func(i *installation, _ *running) { i.nacre("sessions", "stop", "work") }, // it is told to; what it writes waits
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/.nacre/roles/fixer.toml", wholeRole)
			i.project()
			rec := i.choosing("rec.jsonl", atWork+"; echo fixed >x.txt")
			r := i.delegates(rec, "--role", "fixer", "--check", "true")
			eventually(t, "the agent to work", func() bool { return i.works("work") })
			letGo := i.holdLedger()
			i.goOn("work")
			eventually(t, "its work to land", func() bool { return strings.Contains(i.git("ls-tree", "main"), "x.txt") })
			end(i, r)
			letGo()
			if have := finish(t, r); have.code == 0 {
				t.Errorf("the run ended well: %s%s", have.stdout, have.stderr)
			}
			hasNo(t, i.nacre("sessions", "list").stdout, "not landed")
			i.nacre("sessions", "give-up", "work").want(t, 0)
			if row := i.lineage()["work"]; row.Status != ledger.Merged || row.Role != "fixer" {
				t.Errorf("its row is %+v", row)
			}
			if name == "sessions stop" {
				data, err := os.ReadFile(i.state("receipts/work.receipt"))
				check(t, err)
				has(t, string(data), `"merge_commit":"`+strings.TrimSpace(i.git("rev-parse", "main"))+`"`, `"outcome":"stopped"`)
				i.nacre("audit", "verify", "--receipt", i.state("receipts/work.receipt")).want(t, 0, "holds")
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// U-22, U-25: a command that takes work, or throws it away, and is killed before it could say so in
// the ledger is done again by the same command.
func TestWhatIsTakenIsSaidInTheLedgerThoughItsCommandWasKilled(t *testing.T) {
	t.Parallel()
	for verb, row := range map[string]ledger.Status{"apply": ledger.Merged, "discard": ledger.Rejected} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.project()
			rec := i.recording("echo 'use flake' >.envrc; echo more >>greeting.txt") // it waits for a person
			i.nacre("run", "change it", "--recording", rec, "--project", "p", "--session", "work", "--check", "true").want(t, 1, "not merged")
			take, outcome := []string{"sessions", "discard", "work"}, "discarded"
			if verb == "apply" {
				take, outcome = []string{"sessions", "apply", "work", "--held", "take"}, "applied"
			}
			letGo := i.holdLedger()
			killed := i.begin(take...)
			eventually(t, "the end of its work", func() bool {
				data, err := os.ReadFile(i.state("sessions/work/session.json"))
				return err == nil && strings.Contains(string(data), outcome)
			})
			_ = killed.Process.Kill()
			finish(t, killed)
			letGo()
			i.nacre(take...).want(t, 0)
			hasRows(t, i, "work.1 "+string(row)+" held")
			i.spent(t, "work")
		})
	}
}

// M-69, U-25: a sub-agent that is stopped after its work has landed has landed, for its parent and in
// the ledger.
func TestASubAgentThatIsStoppedWhileItLands(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", allowChildren)
	i.project()
	rec := i.choosing("rec.jsonl", askChild(1, `{"task":"one"}`), awaitChild(1))
	i.choosing("rec.jsonl.1", atWork+"; echo one >one.txt")
	r := i.delegates(rec, "--check", "true")
	var one string
	eventually(t, "the sub-agent to work", func() bool { one = i.kins("ps")["one"].ID; return i.works(one) })
	letGo := i.holdLedger()
	i.goOn(one)
	eventually(t, "its work to land", func() bool { return strings.Contains(i.git("ls-tree", "main"), "one.txt") })
	i.nacre("sessions", "stop", one) // it is told to; what it writes waits
	letGo()
	finish(t, r).want(t, 0, one+" has ended, landed", "merged")
	has(t, i.heard("1"), `"state":"landed"`, `"commit":"`)
	if row := i.lineage()[one]; row.Status != ledger.Merged {
		t.Errorf("it has the row %+v", row)
	}
	i.nacre("audit", "verify").want(t, 0)
}
