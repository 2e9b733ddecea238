package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-96, M-31: whenever a nacre is ended that holds a minted credential, by whichever
// signal, the next sweep leaves none that is good and none that it keeps, but one that it
// says it does not know; and no session runs. NACRE_SEED repeats a run.
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

// F-61, F-73, F-96, M-52: whenever nacre serve is ended, by whichever signal, each message
// that it took comes to its end in the next ones: none is kept, none is begun more often
// than it may be, each has one session and one row in the ledger with an end, whoever looked
// meanwhile, and nothing runs.
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
