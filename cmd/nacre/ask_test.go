package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// toolsConfig lets the group main use the reminders.
const toolsConfig = "[groups.main]\ntools = [\"*_reminder*\"]\n"

// asks makes an installation with one reminder, and a command that asks a
// person whether it may be deleted.
func asks(t *testing.T, config string) (*installation, *running) {
	t.Helper()
	i := install(t)
	i.write("home/.config/nacre/config.toml", config+toolsConfig)
	return i, i.beginAsking()
}

// beginAsking makes a reminder, and begins the session "asks", which asks whether it may be deleted.
func (i *installation) beginAsking() *running {
	i.t.Helper()
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(i.t, 0, "R-1")
	return i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
}

func (i *installation) questions() []nacre.Question {
	i.t.Helper()
	r := i.nacre("approvals", "list", "--json")
	var all []nacre.Question
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return all
}

func (i *installation) question() nacre.Question {
	i.t.Helper()
	var all []nacre.Question
	eventually(i.t, "a question", func() bool { all = i.questions(); return len(all) > 0 })
	return all[0]
}

// D-13, D-07: a question is answered from a second terminal, and counts once.
func TestAQuestionIsAnsweredFromAnotherTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb string
		code int
		want string
	}{
		"approved": {"approve", 0, `R-1`},
		"denied":   {"deny", 1, `"CONFIRMATION_DENIED"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := asks(t, "")
			q := i.question()
			if q.Capability != "reminders.delete_reminder" || string(q.Arguments) != `{"reminder_id":"R-1"}` || q.Session != "asks" {
				t.Errorf("have %+v", q)
			}
			i.nacre("approvals", "list").want(t, 0, q.ID, "reminders.delete_reminder", "R-1")
			i.nacre("approvals", "approve", "zzzzz").want(t, 1, "no question")
			i.nacre("approvals", "show", "zzzzz").want(t, 1, "no question")
			i.nacre("approvals", "show", q.ID).want(t, 0, "reminders.delete_reminder", `│   "reminder_id": "R-1"`, "session    asks") // U-12
			i.nacre("approvals", "approve", q.ID, "--times", "0").want(t, 2, "--times 0")
			i.nacre("approvals", c.verb, q.ID).want(t, 0, "answered")
			finish(t, r).want(t, c.code, c.want)
			i.nacre("approvals", "approve", q.ID).want(t, 1, "is waiting: it was answered")
			left := i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{"list":"Work"}`)
			if have := strings.Contains(left.stdout, "pay"); have == (c.code == 0) {
				t.Errorf("%s, and have %s", name, left.stdout)
			}
			chain := i.nacre("audit", "show", "asks", "--json").stdout
			for _, kind := range []string{"approval.ask", "approval.claim", "approval.reply"} {
				if have := strings.Count(chain, `"kind":"`+kind+`"`); have != 1 {
					t.Errorf("%d records of %s\n%s", have, kind, chain)
				}
			}
			if !strings.Contains(chain, "in another terminal") {
				t.Errorf("it does not say who answered:\n%s", chain)
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

func TestSilenceDenies(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "ask_seconds = 1\n")
	finish(t, r).want(t, 1, `"CONFIRMATION_TIMEOUT"`)
	i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{"list":"Work"}`).want(t, 0, "pay")
}

func TestAQuestionEndsWithItsSession(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	i.nacre("sessions", "stop", "asks").want(t, 0)
	finish(t, r).want(t, 130)
	if have := i.questions(); len(have) != 0 {
		t.Errorf("have %+v", have)
	}
	i.nacre("approvals", "approve", q.ID).want(t, 1)
	i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{"list":"Work"}`).want(t, 0, "pay")
	i.nacre("audit", "verify").want(t, 0)
}

// A killed nacre takes its questions with it.
func TestAQuestionEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	finish(t, r)
	if have := i.questions(); len(have) != 0 {
		t.Errorf("have %+v", have)
	}
	i.nacre("approvals", "approve", q.ID).want(t, 1)
	i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{"list":"Work"}`).want(t, 0, "pay")
	i.nacre("audit", "verify").want(t, 0)
}

// D-12: a group without tools gets none, and their handlers do not run.
func TestAGroupWithoutToolsGetsNone(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--session", "none", "--", "ipc", "create_reminder", `{"title":"x","list":"Work"}`).want(t, 1, `"UNAUTHORIZED"`)
	i.nacre("exec", "-q", "--", "ipc", "no_such_tool", `{}`).want(t, 1, `"UNKNOWN_TOOL"`)
	i.nacre("exec", "-q", "--", "ipc", "--list").want(t, 0, "get_session_info")
	if strings.Contains(i.nacre("audit", "show", "none", "--json").stdout, "plugin.ready") {
		t.Error("a handler was started for nobody")
	}
}

// D-23: one broken plugin does not take the session with it.
func TestABrokenPluginIsLeftOut(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"*\"]\n")
	i.write("home/.local/share/nacre/plugins/open/manifest.json", `{"description":"d","version":"1.0.0","handler":["true"],`+
		`"provides":{"tools":[{"name":"open_tool","description":"d","arguments_schema":{"type":"object"}}]}}`)
	i.write("home/.local/share/nacre/plugins/torn/manifest.json", `{"description":`)
	i.nacre("exec", "-q", "--session", "s", "--", "ipc", "get_session_info", "{}").want(t, 0, `"open"`, "CONFIG_ERROR", `"reminders"`)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"x","list":"Work"}`).want(t, 0, "R-1")
	i.nacre("audit", "show", "s", "--json").want(t, 0, "plugin.failed")
	i.nacre("doctor").want(t, 4, "torn")
}

// terminal runs nacre on a pseudo terminal and gives what it showed.
type terminal struct {
	t      *testing.T
	master *os.File
	shown  chan byte
	text   strings.Builder
	read   int // of text
}

func (i *installation) terminal(args ...string) (*terminal, func() result) {
	i.t.Helper()
	screen, wait := i.onTerminal(args, true)
	return screen, func() result {
		defer func() { _ = screen.master.Close() }()
		return wait()
	}
}

// onTerminal leaves the terminal open. keys says that input comes from it too.
func (i *installation) onTerminal(args []string, keys bool) (*terminal, func() result) {
	i.t.Helper()
	return i.attached(i.command(bin+"/nacre", args...), keys)
}

// attached runs any command there.
func (i *installation) attached(command *exec.Cmd, keys bool) (*terminal, func() result) {
	i.t.Helper()
	master, slave, err := sandbox.OpenPty()
	if err != nil {
		i.t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		i.t.Fatal(err)
	}
	command.Env = append(command.Env, "TERM=xterm-256color")
	command.Stdout, command.Stderr = slave, slave
	if keys {
		command.Stdin = slave
	}
	command.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: keys}
	if err := command.Start(); err != nil {
		i.t.Fatal(err)
	}
	_ = slave.Close() // the command has its own
	screen := &terminal{t: i.t, master: master, shown: make(chan byte, 1<<20)}
	go screen.follow()
	return screen, func() result {
		stuck := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		defer stuck.Stop()
		read := make(chan struct{})
		go func() {
			defer close(read)
			for b := range screen.shown {
				screen.text.WriteByte(b)
			}
		}()
		_ = command.Wait() // its state says how it ended
		<-read
		return result{command.ProcessState.ExitCode(), screen.text.String(), ""}
	}
}

func (s *terminal) follow() {
	defer close(s.shown)
	buffer := make([]byte, 4096)
	for {
		n, err := s.master.Read(buffer)
		for _, b := range buffer[:n] {
			s.shown <- b
		}
		if err != nil {
			return
		}
	}
}

// until reads the screen to a text.
func (s *terminal) until(text string) {
	s.t.Helper()
	late := time.After(patience)
	for !strings.Contains(s.text.String()[s.read:], text) {
		select {
		case b, open := <-s.shown:
			if !open {
				s.t.Fatalf("no %q on\n%s", text, s.text.String())
			}
			s.text.WriteByte(b)
		case <-late:
			s.t.Fatalf("no %q on\n%s", text, s.text.String())
		}
	}
	s.read += strings.Index(s.text.String()[s.read:], text) + len(text) // what came with it is looked at next
}

func (s *terminal) typeIn(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// M-06: a shell inside a terminal of its own; its questions are answered from
// another terminal.
func TestAShellOnATerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", toolsConfig)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	screen, wait := i.terminal("exec", "--", "sh")
	screen.until("session k")
	screen.typeIn("test -t 0 && test -t 1 && echo is-a-$TERM\r")
	screen.until("is-a-xterm-256color")
	screen.typeIn("stty size\r")
	screen.until("40 100")
	screen.typeIn("ipc delete_reminder '{\"reminder_id\":\"R-1\"}'; echo ended-$?\r")
	q := i.question()
	screen.until("nacre approvals approve " + q.ID)
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	screen.until("ended-0")
	mark := marker()
	screen.typeIn("sleep 300" + mark + "\r")
	eventually(t, "sleep", func() bool { return len(processes(t, "sleep\x00300"+mark)) > 0 })
	screen.typeIn("\x03") // Ctrl-C is the command's, not nacre's
	gone(t, mark)
	screen.until("^C")
	screen.until("$ ")
	screen.typeIn("echo alive-$((40+2))\r")
	screen.until("alive-42")
	screen.typeIn("exit 9\r")
	wait().want(t, 9)
}

// shownOnce tells whether a terminal that asked showed the question in one place.
func shownOnce(t *testing.T, r result) {
	t.Helper()
	if shown := strings.Count(r.stdout, "reminders.delete_reminder"); shown != 1 {
		t.Errorf("the question is shown %d times:\n%s", shown, r.stdout)
	}
}

// D-13: the first terminal of a run asks y or n, and shows the question once.
func TestARunAsksOnItsTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typed, want string }{
		"yes": {"y\r", "merged"},
		"no":  {"n\r", "1 denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.project()
			i.write("home/.config/nacre/config.toml", toolsConfig)
			i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
			rec := i.recording("ipc delete_reminder '{\"reminder_id\":\"R-1\"}'; echo x > new.txt")
			screen, wait := i.terminal("run", "tidy up", "--project", "p", "--recording", rec, "--check", "true")
			screen.until("approve? y or n")
			time.Sleep(400 * time.Millisecond) // what is typed at once was meant for something else
			screen.typeIn(c.typed)
			have := wait()
			have.want(t, 0, c.want, "1 asked")
			shownOnce(t, have)
		})
	}
}

// F-11: what a command prints on the person's terminal cannot set the clipboard or make the
// terminal type. With --terminal raw all of it passes.
func TestOnlyHarmlessSequencesReachAPersonsTerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	for sequences, want := range map[string]string{"list": "a\x1b[1mbold\x1b[0mz", "raw": "a\x1b]52;c;eHh4\a\x1b[6n\x1b[1mbold\x1b[0mz"} {
		_, end := i.attached(i.command(bin+"/nacre", "exec", "-q", "--terminal", sequences, "--",
			"printf", `a\033]52;c;eHh4\007\033[6n\033[1mbold\033[0mz`), true)
		end().want(t, 0, want)
		// A terminal without a keyboard beside it is one as well.
		_, end = i.attached(i.command(bin+"/nacre", "exec", "-q", "--terminal", sequences, "--",
			"sh", "-c", `printf 'a\033]52;c;eHh4\007\033[6n\033[1mbold\033[0mz' >&2`), false)
		end().want(t, 0, want)
	}
	i.nacre("exec", "--terminal", "other", "--", "true").want(t, 125, "write list or raw")
}
