package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-96, M-31: a nacre that holds a minted credential is ended at any time, by any signal. The next
// sweep leaves none that is good and none that it keeps, but one that it says it does not know. No
// session runs. NACRE_SEED repeats a run.
func TestWheneverNacreIsEndedNoCredentialIsLeft(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	random := seeded(t)
	i, v := minting(t)
	for n := range testpeer.Size(4, 100) {
		signal, after := anySignal(random), time.Duration(random.Int64N(int64(killWindow/2)))
		session := fmt.Sprint("held-", n)
		i.endedAfter(signal, after, "exec", "--session", session, "--", "sh", "-c", "for i in 1 2 3; do curl -sS https://example.com/v1/x; sleep 0.2; done")
		swept := i.nacre("credentials", "sweep")
		unknown := strings.Count(swept.stdout, "does not know it")
		if good := v.out(); len(good) > unknown || i.handles() != "0" {
			t.Errorf("%s after %s: %d are good, %d of them unknown, and %s handles are kept\n%s%s", signal, after, len(good), unknown, i.handles(), swept.stdout, swept.stderr)
		}
		if unknown > 0 {
			return // until it ends by itself, each sweep says so
		}
		if state, _ := i.known(session); state == "running" || state == "open" {
			t.Errorf("%s after %s: nothing runs, and the session is %s", signal, after, state)
		}
		i.endsOnce(t, session)
	}
	// The next exec tells a person what a killed one planted, and seals its chain: no sweep does.
	i.nacre("exec", "--session", "next", "--", "true").want(t, 0)
	i.nacre("audit", "verify").want(t, 0)
}

// F-61, F-105, U-04: a command with commits is ended at any time, by any signal and also once its
// branch has moved. The next command leaves each commit in one place, and each move of a branch
// that began with one end. It leaves no lock and a whole repository. NACRE_SEED repeats a run.
func TestWheneverACommandIsEndedItsCommitsComeOnce(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	i := install(t)
	i.gitUser()
	i.project()
	for n := range testpeer.Size(4, 100) {
		signal, after := anySignal(random), time.Duration(random.Int64N(int64(killWindow/2)))
		session, before := fmt.Sprint("commits-", n), i.git("rev-parse", "main")
		r := i.begin("exec", "--session", session, "--project", "p", "--land", "ff", "--", "sh", "-c", "echo more >>greeting.txt; git commit -q -a -m "+session)
		send := func() { _ = r.Process.Signal(signal) } // it may have ended
		giveUp := i.onceMoved(before, send)
		if n%2 == 1 {
			giveUp()
			end := time.AfterFunc(after, send)
			giveUp = func() { end.Stop() }
		}
		finish(t, r)
		giveUp()
		i.tidies(t)
		heads := strings.Fields(i.git("for-each-ref", "--sort=objectname", "--format=%(objectname)"))
		if once := slices.Compact(slices.Clone(heads)); len(once) != len(heads) {
			t.Errorf("%s after %s: a commit has two branches: %s", signal, after, i.git("for-each-ref"))
		}
		if state, _ := i.known(session); state == "running" || state == "open" {
			t.Errorf("%s after %s: nothing runs, and the session is %s", signal, after, state)
		}
		if locks, _ := filepath.Glob(filepath.Join(i.work, "p/.git/*.lock")); len(locks) > 0 {
			t.Errorf("it left %q", locks)
		}
		i.git("fsck", "--strict")
		i.eachMoveEnded(t)
		i.git("reset", "-q", "--hard")
	}
	i.nacre("audit", "verify").want(t, 0)
}

// F-105: where a command is killed after it said that its commits landed, and before it forgot them, the
// next command takes them. It does not say so again.
func TestAMoveThatWasSaidIsNotSaidAgain(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	r := i.begin("exec", "--session", "one", "--project", "p", "--land", "ff", "--", "sh", "-c",
		"echo more >>greeting.txt; git commit -q -a -m one; touch ready; until test -e go; do sleep 0.02; done")
	eventually(t, "a commit", func() bool { return isThere(filepath.Join(i.work, "p/ready")) })
	works, err := filepath.Glob(i.state("git", "*", "work-one"))
	if err != nil || len(works) != 1 {
		t.Fatalf("have %q, %v", works, err)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	check(t, os.CopyFS(kept, os.DirFS(works[0])))
	i.write("p/go", "")
	finish(t, r)
	check(t, os.CopyFS(works[0], os.DirFS(kept)))
	i.write("home/.local/state/nacre/unsettled/one", "")
	i.tidies(t)
	i.eachMoveEnded(t)
	i.nacre("audit", "verify").want(t, 0)
}

// onceMoved does something as soon as the branch main is no more where it was. It gives up when
// what it returns is called.
func (i *installation) onceMoved(before string, do func()) (giveUp func()) {
	ctx, cancel := context.WithCancel(i.t.Context())
	go func() {
		for ctx.Err() == nil {
			now, err := os.ReadFile(filepath.Join(i.work, "p/.git/refs/heads/main"))
			if err == nil && len(now) > 0 && strings.TrimSpace(string(now)) != before {
				do()
				return
			}
			runtime.Gosched()
		}
	}()
	return cancel
}

// tidies runs commands until nothing is left of what a command's git had.
func (i *installation) tidies(t *testing.T) {
	t.Helper()
	eventually(t, "a command that takes what was left", func() bool {
		i.nacre("exec", "--project", "p", "--", "true").want(t, 0)
		left, err := filepath.Glob(i.state("git", "*", "work-*"))
		check(t, err)
		return len(left) == 0
	})
}

// eachMoveEnded holds the records of moves of branches against each other.
func (i *installation) eachMoveEnded(t *testing.T) {
	t.Helper()
	begun, ended := map[string]int{}, map[string]int{}
	for line := range strings.Lines(i.records("*")) {
		var e struct {
			Kind   string
			Detail struct{ To string }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // audit verify has read it
		}
		switch e.Kind {
		case "merge.intent":
			begun[e.Detail.To]++
		case "merge.done":
			ended[e.Detail.To]++
		}
	}
	for to := range begun {
		if ended[to] != 1 {
			t.Errorf("the move to %.7s began %d times and has %d ends", to, begun[to], ended[to])
		}
	}
}

// F-61, F-73, F-96, M-52: nacre serve is ended at any time, by any signal, and each message that it
// took comes to its end in the next ones. None is kept, and none is begun more often than it may
// be. Each has one session and one row in the ledger with an end, whoever looked meanwhile, and
// nothing runs.
func TestWheneverServeIsEndedEachMessageComesToOneEnd(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	const most = 2 // how often a message is begun that ends who begins it
	i, _ := served(t, "ask_seconds = 1\n[serve]\nsessions = 2\n[groups.main]\ntools = [\"send_box\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"main\"\n",
		scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{
			Name: "shell", Input: []byte(`{"command":"echo begun >> /workspace/group/log; ipc tool.invoke.send_box '{\"recipient\":\"ada\",\"body\":\"an answer\"}'"}`),
		}}}, scriptedmodel.Turn{Text: "Done."})
	messages := 0
	for n := range testpeer.Size(2, 60) {
		one := i.serves(fmt.Sprint("serve", n))
		i.say("ada:apples\nada:pears")
		messages += 2
		signal, after := anySignal(random), time.Duration(random.Int64N(int64(killWindow)))
		t.Logf("%s after %s", signal, after)
		end := time.AfterFunc(after, func() { _ = one.Process.Signal(signal) })
		finish(t, one.running)
		end.Stop()
		if random.IntN(2) == 0 { // who looks while nobody serves gives no message its end
			i.nacre("ledger", "list").want(t, 0)
		}
	}
	last := i.serves("last")
	until(t, "each message to come to its end", func() bool { return len(i.taken()) == 0 })
	last.stop()
	if begun := strings.Count(i.logged("main"), "begun\n"); begun > most*messages {
		t.Errorf("%d messages were begun %d times", messages, begun)
	}
	i.eachMessageEnded(t, messages)
	i.nacre("audit", "verify").want(t, 0)
}

// eachMessageEnded holds sessions, rows and chains of messages against each other.
func (i *installation) eachMessageEnded(t *testing.T, messages int) {
	t.Helper()
	var sessions []struct{ ID, Kind, State string }
	check(t, json.Unmarshal([]byte(i.nacre("sessions", "list", "--json").stdout), &sessions))
	var rows []ledger.Run
	check(t, json.Unmarshal([]byte(i.nacre("ledger", "list", "--json").stdout), &rows))
	told := map[string]int{}
	for _, row := range rows {
		session, _, _ := strings.Cut(row.ID, ".")
		told[session]++
		if row.Status == ledger.Running || row.Status == ledger.Interrupted {
			t.Errorf("the row %s is %s", row.ID, row.Status)
		}
	}
	ended := 0
	for _, s := range sessions {
		if s.State == "running" || s.State == "open" {
			t.Errorf("nothing runs, and %s %s is %s", s.Kind, s.ID, s.State)
		}
		if s.Kind != "message" {
			continue
		}
		ended++
		i.endsOnce(t, s.ID)
		if told[s.ID] != 1 {
			t.Errorf("the session %s has %d rows", s.ID, told[s.ID])
		}
	}
	if ended > messages {
		t.Errorf("%d messages have %d sessions", messages, ended)
	}
}
