package main_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const (
	// killWindow is the time within which a run is ended: a little longer than one takes.
	killWindow = 3 * time.Second
	// killBudget is how long the test goes on beginning cases.
	killBudget, killBudgetFull = 30 * time.Second, 10 * time.Minute
)

// F-61, F-62, F-96, F-105: nacre is ended at any time, by any signal. Once the next command has
// looked, the ledger, the sessions, the chains and the project tell the same. Nothing runs, and
// every call that began has at most one end and every question one. A run is interrupted or at its
// end with its session, what landed landed once, and git works. Every other case is a plain run,
// which has no row. The seed is in the log; NACRE_SEED=N repeats it.
func TestWheneverNacreIsEndedAllRecordsAgree(t *testing.T) {
	random := seeded(t)
	budget := killBudget
	if testpeer.Size(0, 1) == 1 {
		budget = killBudgetFull
	}
	until := time.Now().Add(budget)
	for n := 0; n < testpeer.Size(8, 200) && time.Now().Before(until) && !t.Failed(); n++ {
		signal := anySignal(random)
		after := time.Duration(random.Int64N(int64(killWindow)))
		again := time.Duration(random.Int64N(int64(killWindow)))
		name, begin, resume := "task ", []string{"task", "run", "task0.toml"}, []string{"task", "run", "--session", "work"}
		if n%2 == 1 {
			name, begin, resume = "run ", []string{"run", "Task 0", "--brain", "replay"}, []string{"run", "--session", "work"}
		}
		t.Run(name+signal.String()+" after "+after.String()+", then after "+again.String(), func(t *testing.T) {
			i := desk(t, "ask_seconds = 1\n"+strings.Replace(holdTools, `"say"`, `"say", "shred"`, 1))
			i.write("p/.nacre/roles/fixer.toml", taskRole)
			i.write("p/pkg/x/x.txt", "broken\n")
			i.git("add", "-A")
			i.git("commit", "-q", "-m", "role")
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
				`{"tool":"shell","input":{"command":"ipc say '{\"text\":\"a\"}'; ipc shred '{\"name\":\"b\"}'; ipc say '{\"text\":\"c\"}'"}}`+"\n"+
				`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
			i.tasks(1)
			i.endedAfter(signal, after, append(begin, "--project", "p", "--recording", rec, "--session", "work", "--check", "grep -q fixed pkg/x/x.txt")...)
			i.agree(t)
			if state, resumable := i.known("work"); resumable {
				i.endedAfter(signal, again, resume...)
				i.agree(t)
			} else if state == "" {
				return
			}
			if _, resumable := i.known("work"); resumable {
				i.nacre(resume...).want(t, 0, "merged")
				i.agree(t)
			}
		})
	}
}

// seeded are the choices of one run of a test, which NACRE_SEED repeats.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("NACRE_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("NACRE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func anySignal(random *rand.Rand) syscall.Signal {
	return []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[random.IntN(3)]
}

// endedAfter runs nacre, and ends it after a time where it has not ended by itself.
func (i *installation) endedAfter(signal syscall.Signal, after time.Duration, args ...string) {
	i.t.Helper()
	r := i.begin(args...)
	end := time.AfterFunc(after, func() { _ = r.Process.Signal(signal) })
	defer end.Stop()
	finish(i.t, r)
}

// known is how a session stands; "" where there is none.
func (i *installation) known(id string) (state string, resumable bool) {
	i.t.Helper()
	var list []struct {
		ID, State string
		Resumable bool
	}
	r := i.nacre("sessions", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	for _, s := range list {
		if s.ID == id {
			return s.State, s.Resumable
		}
	}
	return "", false
}

// agree holds all that an installation keeps against each other, after a command that
// looks at its sessions.
func (i *installation) agree(t *testing.T) {
	t.Helper()
	state, resumable := i.known("work")
	if state == "running" || state == "open" {
		t.Errorf("nothing runs, and the session is %s", state)
	}
	i.nacre("audit", "verify").want(t, 0)
	rows := i.rows()
	if len(rows) > 1 {
		t.Errorf("one run has %d rows: %q", len(rows), rows)
	}
	merged := false
	for _, row := range rows {
		merged = row == ledger.Merged
		if row == ledger.Running || row == ledger.Interrupted && !resumable {
			t.Errorf("the row is %s, and the session is %s, resumable %t", row, state, resumable)
		}
	}
	if landed := strings.Count(i.git("log", "--format=%s"), "Task 0"); landed > 1 || merged && landed != 1 {
		t.Errorf("%d commits landed, and the row is %q", landed, rows)
	}
	if locks, _ := filepath.Glob(filepath.Join(i.work, "p/.git/*.lock")); len(locks) > 0 {
		t.Errorf("it left %q", locks)
	}
	if left := i.git("status", "--porcelain"); left != "" {
		t.Errorf("the project is not as its branch says: %s", left)
	}
	i.endsOnce(t, "work")
}

// endsOnce holds calls and questions to one end each: a call whose nacre was killed has
// none, and all that is recorded as ended had begun.
func (i *installation) endsOnce(t *testing.T, session string) {
	t.Helper()
	begun, ended, asked, replied := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(i.records(session)) {
		var e struct {
			Kind   string
			Reason string
			Detail struct{ Call string }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // audit verify has read it
		}
		for kind, count := range map[string]map[string]int{"call.begin": begun, "call.end": ended, "approval.ask": asked, "approval.reply": replied} {
			if e.Kind == kind {
				count[e.Detail.Call]++
			}
		}
		if e.Reason == "denied_by_person" {
			t.Errorf("nobody was there to deny it: %s", line)
		}
	}
	for what, pair := range map[string][2]map[string]int{"call": {begun, ended}, "question": {asked, replied}} {
		for id, n := range pair[1] {
			if n != 1 || pair[0][id] != 1 {
				t.Errorf("%s %s has %d beginnings and %d ends", what, id, pair[0][id], n)
			}
		}
	}
}
