package main_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// bytesBelow is how much the files of a folder hold.
func bytesBelow(t *testing.T, dir string) (sum int64) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}

// strange is a person of a service whom nobody configured.
func strange(service string, n int) string {
	id := fmt.Sprint(7_755_007_700_000 + n)
	if service == "slack" {
		return "U" + id
	}
	return id
}

// awaits begins the session "asks", which waits for ada, and returns when ada sees the card.
func awaits(t *testing.T, i *installation, fake chatFake) *running {
	t.Helper()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "the card", func() bool { return len(fake.card()) > 1 })
	return r
}

// M-41, M-46: ten thousand strangers who write, give commands, ask to be paired and press at once are told
// nothing, begin nothing and decide nothing. What is kept and recorded of them is bounded, and so is what
// it takes in memory. No press of whoever may is lost among theirs.
func TestStrangersGetNothingInAChat(t *testing.T) {
	t.Parallel()
	for name, service := range chatServices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, fake, _ := chatting(t, name, scriptedmodel.Turn{Text: "Done."})
			i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
			serve := i.serves("serve")
			r, began := awaits(t, i, fake), time.Now()
			approve, before := fake.card()[0], residents(t, serve.Process.Pid)
			strangers := testpeer.Size(400, 10_000)
			for n := range strangers {
				who := strange(name, n)
				fake.writes(who, "let me in "+strings.Repeat("please ", 100))
				fake.writes(who, []string{"!status", "!kill asks", "!pair", "/pair"}[n%4])
				fake.taps(who, approve)
				if n == strangers/2 || n == strangers-1 {
					fake.taps(service.users.ada, "aaaaaaaaaaaaaaaa")
				}
			}
			until(t, "the answers to ada", func() bool { return strings.Count(fake.heard(), "Nothing was decided: ") == 2 })
			until(t, "a record of strangers", func() bool { return strings.Contains(i.records("asks"), `"reason":"stranger"`) })
			fake.writes(service.users.ada, "hello")
			until(t, "the end of ada's message", func() bool { return strings.Contains(fake.heard(), "The agent ended without an answer.") })
			grown := residents(t, serve.Process.Pid) - before
			minutes := int(time.Since(began)/time.Minute) + 2
			if grown > 64<<20 {
				t.Errorf("%d strangers take %d MiB", strangers, grown>>20)
			}
			hasNo(t, fake.heard(), "77550077")
			if n := i.countSessions("message"); n != 1 || len(i.questions()) != 1 || len(i.taken()) != 0 {
				t.Errorf("%d sessions, %d questions and %d messages", n, len(i.questions()), len(i.taken()))
			}
			fake.taps(service.users.ada, approve)
			finish(t, r).want(t, 0, "R-1")
			serve.stop()
			if n := strings.Count(i.records("asks"), `"reason":"stranger"`); n == 0 || n > 100 {
				t.Errorf("%d presses are recorded", n)
			}
			if n := strings.Count(i.records(serve.session()), `"outcome":"dropped"`); n == 0 || n > 21*minutes {
				t.Errorf("%d messages are recorded in %d minutes", n, minutes)
			}
			if kept := bytesBelow(t, i.state("data", name)); kept > 2<<20 {
				t.Errorf("the channel keeps %d bytes", kept)
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-42, M-46, M-47: at each service there are presses that decide nothing. They are another person's,
// forged, of somebody who is no operator any more or of before, on a card of a process that was killed, a
// second one, or late. Whoever may know is told why; the one that counts is recorded with person, identity,
// face and card.
func TestPressesThatDecideNothingInAChat(t *testing.T) {
	t.Parallel()
	for name, service := range chatServices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, fake, _ := chatting(t, name, scriptedmodel.Turn{Text: "Done."})
			i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
			serve := i.serves("serve")
			r, ada, bob := awaits(t, i, fake), service.users.ada, service.users.bob
			shown, refused := question.Of(i.question()).Digest(), 0
			nothing := func(who, button string) {
				t.Helper()
				refused++
				fake.taps(who, button)
				until(t, "the refusal", func() bool { return strings.Count(fake.heard(), "Nothing was decided: ") >= refused })
				if len(i.questions()) > 1 || strings.Contains(fake.heard(), "Approved") {
					t.Fatalf("a press that decides nothing decided:\n%s", fake.heard())
				}
			}
			another := func(old []string) []string {
				t.Helper()
				until(t, "another card", func() bool { now := fake.card(); return len(now) > 1 && now[0] != old[0] })
				return fake.card()
			}
			first := fake.card()
			nothing(bob, first[0])
			nothing(ada, "aaaaaaaaaaaaaaaa")
			with := i.configured()
			i.config(strings.Replace(with, fmt.Sprintf(", %q", service.identity(name, ada)), "", 1))
			until(t, "that it is not ada's any more", func() bool { return strings.Contains(fake.heard(), "It is not yours to answer any more.") })
			fake.taps(ada, first[0]) // a stranger's, who is told nothing
			nothing(bob, first[0])
			i.config(with)
			second := another(first)
			nothing(ada, first[0])
			serve.dies(t)
			serve = i.serves("again")
			third := another(second)
			nothing(ada, second[0])
			if len(i.questions()) != 1 {
				t.Fatal("the question does not wait any more")
			}
			fake.taps(ada, third[0])
			finish(t, r).want(t, 0, "R-1")
			until(t, "what was decided", func() bool { return strings.Contains(fake.heard(), "Approved once by ada ("+name+").") })
			for _, late := range third[:2] {
				refused++
				fake.taps(ada, late)
				until(t, "the refusal of a late press", func() bool { return strings.Count(fake.heard(), "Nothing was decided: ") >= refused })
			}
			serve.stop()
			records := i.records("asks")
			has(t, records, `"person":"ada"`, `"identity":"`+service.identity(name, ada)+`"`, `"face":"`+name+`"`, `"shown":"`+shown+`"`, `"reason":"right"`)
			if n := strings.Count(records, `"outcome":"approved"`); n != 1 {
				t.Errorf("it was approved %d times", n)
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-48: while a service is down nothing is lost and nothing is begun twice. What was written meanwhile is
// answered when it is back, and the operator finds in the record that it was not reached. Of a message of
// 100 kB the agent is given the beginning, and it and whoever wrote are told so.
func TestAServiceIsDown(t *testing.T) {
	t.Parallel()
	for name, service := range chatServices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := service.fake()
			var down atomic.Bool
			i, model, _ := chattingAt(t, name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				fake.ServeHTTP(w, r)
			}), scriptedmodel.Turn{Text: "Done."})
			serve := i.serves("serve")
			ends := func(n int) {
				t.Helper()
				until(t, "the end of message "+strconv.Itoa(n), func() bool {
					return strings.Count(fake.heard(), "The agent ended without an answer.") == n
				})
			}
			fake.writes(service.users.ada, "the beginning "+strings.Repeat("and so on ", 10_000))
			ends(1)
			has(t, fake.heard(), "Your message is too long: its last ")
			has(t, string(model.Requests()[0].Body), "the beginning and so on", "characters of the message are left out here]")
			down.Store(true)
			fake.cuts()
			if name != "discord" { // where only a session goes on, of which nobody says why it does not
				until(t, "a record that it is not reached", func() bool { return strings.Contains(i.records(serve.session()), " said 502") })
			}
			fake.writes(service.users.ada, "written meanwhile")
			down.Store(false)
			ends(2)
			has(t, string(model.Requests()[1].Body), "written meanwhile")
			serve.stop()
			if n := i.countSessions("message"); n != 2 {
				t.Errorf("two messages have %d sessions", n)
			}
			hasNoSecret(t, i.state(), "quiet-harbour")
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}
