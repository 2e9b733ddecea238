package main_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// U-23, F-133: a run outlives its terminal. It is listed while it works, and what it told is read
// from elsewhere. Its question waits for a person who left and comes back, and the terminal that
// came back ends as the run does.
func TestARunOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", toolsConfig)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	rec := i.recording("echo begun; ipc delete_reminder '{\"reminder_id\":\"R-1\"}'; echo x > new.txt")
	screen, wait := i.terminal("run", "tidy up", "--project", "p", "--recording", rec, "--check", "true", "--session", "work", "--detach")
	screen.until("nacre attach work")
	wait().want(t, 0) // and its terminal is gone
	q := i.question()
	if left := time.Until(q.Expires); left < time.Hour {
		t.Errorf("the question waits only %s for somebody who comes back", left)
	}
	i.nacre("ps").want(t, 0, "work", "run", "1 waiting", "tidy up")
	i.nacre("logs", "work").want(t, 0, "session work", q.ID)
	i.nacre("run", "another", "--project", "p", "--recording", rec, "--check", "true", "--session", "work", "--detach").want(t, 2, "work")

	screen, wait = i.terminal("attach", "work")
	screen.until("approve? y or n")
	screen.typeIn("\x03")
	screen.until("session work goes on")
	wait().want(t, 130)
	i.nacre("ps", "--json").want(t, 0, `"questions":1`)

	following := i.begin("logs", "-f", "work")
	screen, wait = i.terminal("attach", "work")
	screen.until("approve? y or n")
	time.Sleep(400 * time.Millisecond) // what is typed at once was meant for something else
	screen.typeIn("y\r")
	have := wait()
	have.want(t, 0, "approved", "merged", "1 asked")
	shownOnce(t, have)
	finish(t, following).want(t, 0, "session work", "merged")
	i.nacre("attach", "work").want(t, 1, "nacre logs work")
	i.nacre("ps").want(t, 0, "nothing works now")

	names := map[string]int{}
	for line := range strings.Lines(i.nacre("logs", "work", "--json").stdout) {
		var e struct{ Event string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		names[e.Event]++
	}
	for _, name := range []string{"started", "question", "settled", "report", "ended"} {
		if names[name] != 1 {
			t.Errorf("%d events %s, want 1: %v", names[name], name, names)
		}
	}
}

// U-23: what keeps a run from beginning is said where it was asked for, with its exit code. The end
// of one that failed is the end of the terminal that came back to it.
func TestADetachedRunSaysHowItEnds(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.nacre("run", "tidy up", "--project", "nowhere", "--detach").want(t, 2, "nowhere")
	i.nacre("attach", "work").want(t, 1, "no such session")
	i.nacre("logs", "-f", "work").want(t, 1, "no such session")
	rec := i.recording("until test -e /workspace/go; do sleep 0.02; done")
	beginning := i.begin("run", "tidy up", "--project", "p", "--recording", rec, "--check", "false", "--session", "work", "--detach", "--json")
	eventually(t, "the session", func() bool { return strings.Contains(i.nacre("ps").stdout, "tidy up") })
	following := i.begin("logs", "-f", "work") // which waits for what it tells
	finish(t, beginning).want(t, 0, `"event":"started"`, `"session":"work"`)
	screen, wait := i.onTerminal([]string{"attach", "work"}, false) // which asks nobody
	defer func() { _ = screen.master.Close() }()
	screen.until("session work")
	i.nacre("sessions", "stop", "work").want(t, 0)
	wait().want(t, 130, "nacre run --session work")
	finish(t, following).want(t, 0, "session work")
	i.nacre("attach", "work").want(t, 1, "it is stopped", "nacre run --session work goes on")
	i.nacre("logs", "work").want(t, 0, "stopped")
}

// U-23: a command outlives its terminal as a run does. What it prints is kept without secrets and
// can do nothing to a terminal. Its question is answered by who comes back, and its exit code is
// that of the terminal that came back.
func TestACommandOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", toolsConfig)
	key := "ghp_" + "Zq81" + "kD0sWm47Xr2LtVb9" + "Yc6NfHjP3uEaQ5Gx"
	screen, wait := i.terminal("exec", "--project", "p", "--session", "work", "--detach", "--", "sh", "-c",
		`cat; echo "begun \033]0;title\007"; echo to-stderr >&2; until [ -e go ]; do sleep 0.05; done; ipc delete_reminder '{"reminder_id":"R-1"}'; echo `+key+`; printf the-end; exit 7`)
	screen.until("session work")
	screen.until("nacre attach work")
	wait().want(t, 0)
	eventually(t, "what it prints", func() bool { return strings.Contains(i.nacre("logs", "work").stdout, "to-stderr") })
	i.nacre("ps").want(t, 0, "work", "exec")
	if logs := i.nacre("logs", "work").stdout; !strings.Contains(logs, "begun ") || strings.Contains(logs, "\x1b]0") {
		t.Errorf("the logs are %q", logs)
	}
	screen, wait = i.terminal("attach", "work")
	i.write("p/go", "")
	screen.until("approve? y or n")
	time.Sleep(400 * time.Millisecond) // what is typed at once was meant for something else
	screen.typeIn("y\r")
	wait().want(t, 7, "the-end")
	if logs := i.nacre("logs", "work").stdout; strings.Contains(logs, key) || !strings.Contains(logs, "the-end") {
		t.Errorf("the logs are %q", logs)
	}
	i.nacre("exec", "--detach", "--project", "nowhere", "--", "true").want(t, 125, "nowhere")
	i.nacre("exec", "--detach", "--", "no-such-program").want(t, 125, "no-such-program")
	i.nacre("exec", "--detach", "--json", "--session", "quiet", "--", "true").want(t, 0, `"event":"started"`, `"session":"quiet"`)
	eventually(t, "its end", func() bool { return strings.Contains(i.nacre("logs", "quiet", "--json").stdout, `"exit_code":0`) })
}
