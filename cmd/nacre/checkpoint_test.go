package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// interruptedWork begins a run whose agent asks for two things, of which one is approved and one
// denied, and kills nacre with -9 while the agent works on.
func interruptedWork(t *testing.T) *installation {
	t.Helper()
	i := desk(t, "[groups.main]\ntools = [\"shred\", \"hold\"]\n")
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"ipc shred '{\"name\":\"a\"}' >a.txt; ipc shred '{\"name\":\"b\"}' >b.txt 2>&1; ipc hold '{\"name\":\"on\"}'"}}`+"\n")
	r := i.begin("run", "shred two folders", "--project", "p", "--recording", rec, "--session", "work", "--check", "test -s a.txt")
	i.nacre("approvals", "approve", i.question().ID).want(t, 0, "approved")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0, "denied")
	i.isHeld("on")
	_ = r.Process.Kill()
	finish(t, r)
	return i
}

// M-55: a run goes on after kill -9, from its last step. What a person answered is not asked
// again, what they approved is done once, and what they denied is not done.
func TestWhatWasAnsweredBeforeAKillIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	i := interruptedWork(t)
	r := i.begin("run", "--session", "work")
	eventually(t, "the agent to come as far again", func() bool { return strings.Count(i.done(), "began on") == 2 || len(i.questions()) > 0 })
	if all := i.questions(); len(all) > 0 {
		t.Errorf("asked again: %+v", all)
	}
	i.letsHold("on")
	finish(t, r).want(t, 0, "merged", "goes on")
	if have := i.done(); strings.Count(have, "shred a") != 1 || strings.Contains(have, "shred b") {
		t.Errorf("it did %s", have)
	}
	has(t, i.git("show", "HEAD:a.txt"), "done_before")
	has(t, i.git("show", "HEAD:b.txt"), "CONFIRMATION_DENIED")
	i.nacre("audit", "show", "work", "--json").want(t, 0, `"kind":"call.repeat"`)
	i.nacre("audit", "verify").want(t, 0)
}

// M-55: a checkpoint that is not whole is an error, and never "none": nothing begins anew that
// has begun, and the way out is named.
func TestACheckpointThatIsNotWhole(t *testing.T) {
	t.Parallel()
	i := interruptedWork(t)
	names := []string{"sessions/work/run.json", "sessions/work/session.json", "engine.sqlite", "engine.sqlite-wal"}
	half := func(name string) {
		t.Helper()
		info, err := os.Stat(i.state(name))
		if err == nil {
			err = os.Truncate(i.state(name), info.Size()/2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func(names ...string) {
		for _, name := range names {
			_ = os.Remove(i.state(name)) // what is not there is gone
		}
	}
	for name, c := range map[string]struct {
		damage func()
		want   string
	}{
		"what was asked, cut in half":    {func() { half("sessions/work/run.json") }, "what it was asked to do is damaged"},
		"what was asked, empty":          {func() { i.overwrite("sessions/work/run.json", "") }, "what it was asked to do is damaged"},
		"what was asked, of nothing":     {func() { i.overwrite("sessions/work/run.json", "{}") }, "what it was asked to do is damaged"},
		"what was asked, gone":           {func() { gone("sessions/work/run.json") }, "what it was asked to do is gone"},
		"the session, cut in half":       {func() { half("sessions/work/session.json") }, "session.json is damaged"},
		"the engine's file, cut in half": {func() { half("engine.sqlite"); gone("engine.sqlite-wal", "engine.sqlite-shm") }, "engine"},
		"the engine's file, gone":        {func() { gone("engine.sqlite", "engine.sqlite-wal", "engine.sqlite-shm") }, "knows nothing of it"},
		"the engine's file, another's": {func() {
			gone("engine.sqlite-wal", "engine.sqlite-shm")
			i.overwrite("engine.sqlite", strings.Repeat("x", 8192))
		}, "engine.sqlite"},
	} {
		whole := map[string][]byte{}
		for _, name := range names {
			whole[name], _ = os.ReadFile(i.state(name)) // where it is missing, it is written empty
		}
		c.damage()
		r := i.nacre("run", "--session", "work")
		if r.code == 0 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit %d: %s%s", name, r.code, r.stdout, r.stderr)
		}
		if strings.Contains(r.stdout+r.stderr, "▸ shell") {
			t.Errorf("%s: its agent began anew", name)
		}
		gone("engine.sqlite-shm")
		for _, name := range names {
			i.overwrite(name, string(whole[name]))
		}
	}
	gone("engine.sqlite", "engine.sqlite-wal", "engine.sqlite-shm")
	i.nacre("sessions", "give-up", "work").want(t, 0)
	i.nacre("run", "--session", "work").want(t, 2, "no unfinished work")
}

// overwrite puts a text in the place of a file of the state.
func (i *installation) overwrite(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(i.state(name), []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// M-55: a host that a person let through for a time is let through for the rest of it in the run
// that goes on. A yes for a number of calls is good for those that are left of it.
func TestWhatStandsForATimeStandsAfterAKill(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "written") }))
	t.Cleanup(server.Close)
	i := desk(t, fmt.Sprintf("[egress.pin]\n\"dns.example.com:443\" = %q\n[groups.main]\ntools = [\"shred\", \"hold\"]\n", server.Listener.Addr()))
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"until curl -sfk https://dns.example.com/ >a.txt; do sleep 0.1; done; ipc shred '{\"name\":\"a\"}'; ipc shred '{\"name\":\"b\"}'; ipc hold '{\"name\":\"on\"}'"}}`+"\n")
	r := i.begin("run", "reach a host", "--project", "p", "--recording", rec, "--session", "work", "--check", "test -s a.txt")
	i.nacre("approvals", "approve", i.question().ID, "--for", "1h").want(t, 0, "approved")
	q := i.question()
	if q.Capability != "desk.shred" {
		t.Fatalf("have %+v", q)
	}
	i.nacre("approvals", "approve", q.ID, "--times", "4", "--scope", "tool").want(t, 0, "approved")
	i.isHeld("on")
	_ = r.Process.Kill()
	finish(t, r)
	r = i.begin("run", "--session", "work")
	eventually(t, "the agent to come as far again", func() bool { return strings.Count(i.done(), "began on") == 2 || len(i.questions()) > 0 })
	if all := i.questions(); len(all) > 0 {
		t.Errorf("asked again: %+v", all)
	}
	i.letsHold("on")
	finish(t, r).want(t, 0, "merged")
	if have := i.done(); strings.Count(have, "shred ") != 4 {
		t.Errorf("it did %s", have)
	}
}
