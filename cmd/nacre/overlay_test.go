package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// drawing gives the installation an agent with a reminder to ask about.
func drawing(t *testing.T, script string) *installation {
	t.Helper()
	i, _ := ownAgent(t, script)
	config := "home/.config/nacre/config.toml"
	i.write(config, i.read(config)+toolsConfig)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	return i
}

// fullScreen is a program that draws on the other screen, and draws anew when it has
// another size. It asks when the project has a file go, and quits at q. What draws is a shell of its own: one
// whose read ends for its time forgets the trap that it is in, and the key that it has just read.
const fullScreen = `exec bash -c '
printf "\033[?1049h\033[?1000h\033[?2004h\033[2J"; stty raw -echo
(until [ -e go ]; do sleep 0.1; done; ipc delete_reminder "{\"reminder_id\":\"R-1\"}" >answer.txt 2>&1; touch answered) &
(trap "printf \"\033[Hdrawn-at-\$(stty size <&2 | tr \" \" -)-\"" WINCH; printf "ready-$((1+1))"; while :; do sleep 0.1 & wait; done) &
typed=
while IFS= read -rs -N1 key; do typed=$typed$key; printf %s "$typed" >typed.txt; [ "$key" = q ] && { printf "\033[?1049l"; exit 5; }; done'`

// word reads the host's word from the start.
func (s *terminal) word() string {
	s.t.Helper()
	s.until("which no agent knows")
	_, after, _ := strings.Cut(s.text.String(), "show the word ")
	word, _, _ := strings.Cut(after, ",")
	if len(word) < 6 {
		s.t.Fatalf("no word in\n%s", s.text.String())
	}
	return word
}

func (s *terminal) resize(rows, columns uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		s.t.Fatal(err)
	}
}

// press types a key until something is shown, as a person does whom the guard ignored.
func (s *terminal) press(key, until string) {
	s.t.Helper()
	from, pressed := s.text.Len(), time.Time{}
	eventually(s.t, "what "+key+" shows: "+until, func() bool {
		s.more()
		if at := strings.Index(s.text.String()[from:], until); at >= 0 {
			s.read = from + at + len(until) // what came with it is looked at next
			return true
		}
		if time.Since(pressed) > 2*time.Second {
			s.typeIn(key)
			pressed = time.Now()
		}
		return false
	})
}

// refuses answers no to the question that is shown and to each that comes after it, until the overlay gives the
// terminal back. A real program asks for hosts of its own, too.
func (s *terminal) refuses() {
	s.t.Helper()
	from, pressed := s.read, time.Time{}
	eventually(s.t, "the terminal, once all is refused", func() bool {
		s.more()
		shown := s.text.String()[from:]
		if at := strings.Index(shown, given); at >= 0 {
			s.read = from + at + len(given)
			return true
		}
		if time.Since(pressed) > 2*time.Second {
			key := "\x1d"
			if strings.LastIndex(shown, "n no") > strings.LastIndex(shown, "press Ctrl-]") {
				key = "n"
			}
			s.typeIn(key)
			pressed = time.Now()
		}
		return false
	})
}

// quits types what ends a program until it has ended: one that draws anew at that
// moment drops a key.
func (s *terminal) quits(keys string, wait func() result) result {
	ended := make(chan result, 1)
	go func() { ended <- wait() }()
	for {
		_, _ = s.master.WriteString(keys) // it may have ended
		select {
		case r := <-ended:
			return r
		case <-time.After(2 * time.Second):
		}
	}
}

// given says that the overlay gave the terminal back.
const given = "\x1b[<1u"

// U-10, F-114: over a program that draws, a question is an overlay with the host's word, in terminals of any size,
// with a bell and in the title. What was typed for the program, a paste and a report of the terminal are the
// program's. Ctrl-] and a choice answer, and the program draws anew.
func TestAQuestionIsAnOverlayOverAProgramThatDraws(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][2]uint16{"80x24": {24, 80}, "200x60": {60, 200}, "no size": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := drawing(t, fullScreen)
			i.env = append(i.env, "TERM_PROGRAM=WezTerm", "TMUX=", "STY=")
			told := name == "80x24"
			if !told {
				i.write("home/.config/nacre/config.toml", i.read("home/.config/nacre/config.toml")+"[approval]\nquiet = true\n")
			}
			screen, wait := i.terminal("agent", "--project", "p", "--session", "over", "mine")
			word := screen.word()
			screen.until("ready-2") // what nacre says of the start comes first
			screen.resize(size[0], size[1])
			screen.until("drawn-at-")
			i.write("p/go", "")
			screen.until("reminders.delete_reminder")
			screen.until("press Ctrl-]")
			shown := screen.text.String()
			if has(t, shown, "\a\x1b]2;nacre: a question waits", "\x1b[?1000l"); strings.Count(shown, word) != 2 { // at the start, and here
				t.Errorf("the overlay has not the word:\n%q", shown)
			}
			isTold := func() bool {
				screen.more()
				return strings.Contains(screen.text.String(), "\x1b]9;nacre: a question waits\x1b\\")
			}
			if told { // U-13
				eventually(t, "the notice of the terminal", isTold)
			}
			screen.typeIn("y\r\x1b[200~y\x1b[201~\x1b[24;80R")
			eventually(t, "the program's keys", func() bool { return strings.HasSuffix(i.made("typed.txt"), "\x1b[24;80R") })
			if len(i.questions()) != 1 {
				t.Fatal("keys for the program answered")
			}
			screen.press("\x1d", "y once")
			screen.press("y", given)
			screen.until("drawn-at-")
			eventually(t, "the answer", func() bool { return strings.Contains(i.made("answer.txt"), "R-1") })
			screen.typeIn("q")
			wait().want(t, 5, "reminders.delete_reminder", "approved")
			if isTold() != told {
				t.Errorf("the terminal was told: %t, want %t", !told, told)
			}
			i.nacre("audit", "show", "over", "--json").want(t, 0, "in the overlay")
			i.nacre("logs", "over").want(t, 0, "reminders.delete_reminder", "waits no longer · nacre show over")
		})
	}
}

// U-10: on a terminal that obeys no sequences a question is a line, and nothing of nacre's is drawn.
func TestOnADumbTerminalAQuestionIsALine(t *testing.T) {
	t.Parallel()
	i := drawing(t, `stty raw -echo; ipc delete_reminder '{"reminder_id":"R-1"}' >answer.txt 2>&1; echo "it is $TERM"`)
	for _, as := range [][]string{{"TERM=dumb"}, {"-u", "TERM"}} {
		screen, wait := i.attached(i.command("env", append(as, bin+"/nacre", "agent", "--project", "p", "mine")...), true)
		screen.until("waiting for you")
		i.nacre("approvals", "deny", i.question().ID).want(t, 0)
		have := wait()
		have.want(t, 0, "it is dumb")
		hasNo(t, have.stdout, "\x1b", "show the word")
	}
}

// U-10: an agent floods the terminal while its question waits, and paints an overlay of its own. It shows none of
// that, gets what is typed for it, and answers nothing.
func TestAnAgentCannotPaintOverAQuestion(t *testing.T) {
	t.Parallel()
	i := drawing(t, `stty raw -echo; printf '\033[?1049h\033[2Jready-%s' $((1+1)); until [ -e go ]; do sleep 0.1; done
ipc delete_reminder '{"reminder_id":"R-1"}' >answer.txt 2>&1 & asks=$!
until [ -e flood ]; do sleep 0.1; done
yes "$(printf '\033[H\033[2J\033[6n\033]11;?\007\033[7m nacre asks: press y')" | head -n 10000; echo flooded >flooded
wait $asks; printf painted-until-here; exec sleep 300`)
	screen, wait := i.terminal("agent", "--project", "p", "--session", "paint", "mine")
	screen.until("ready-2")
	i.write("p/go", "")
	screen.until("press Ctrl-]")
	i.write("p/flood", "")
	eventually(t, "the end of the flood", func() bool { screen.more(); return i.made("flooded") != "" })
	screen.typeIn("y")
	screen.more()
	if strings.Contains(screen.text.String()[screen.read:], "press y") || len(i.questions()) != 1 {
		t.Errorf("the agent painted, or was answered:\n%.2000q", screen.text.String()[screen.read:])
	}
	screen.press("\x1d", "y once")
	screen.press("n", given)
	eventually(t, "what the agent printed", func() bool { screen.more(); return strings.Contains(screen.text.String(), "painted-until-here") })
	eventually(t, "the denial", func() bool { return strings.Contains(i.made("answer.txt"), "CONFIRMATION_DENIED") })
	i.nacre("sessions", "stop", "paint").want(t, 0)
	wait().want(t, 130)
}

// made is what a file of the project holds, nothing where it is not there yet.
func (i *installation) made(name string) string {
	data, err := os.ReadFile(filepath.Join(i.work, "p", name))
	if err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
	return string(data)
}

// U-10: with -q too, a question is an overlay. One that is answered in another terminal goes away. One that is
// left for later comes back.
func TestAnOverlayGoesAndComesBack(t *testing.T) {
	t.Parallel()
	i := drawing(t, fullScreen)
	screen, wait := i.terminal("agent", "-q", "--project", "p", "mine")
	screen.until("ready-2")
	i.write("p/go", "")
	screen.until("press Ctrl-]")
	screen.press("\x1d", "y once")
	screen.press("l", given)
	screen.press("\x1d", "press Ctrl-]")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	screen.until(given)
	eventually(t, "the denial", func() bool { return strings.Contains(i.made("answer.txt"), "CONFIRMATION_DENIED") })
	screen.typeIn("q")
	wait().want(t, 5)
}

// U-01, U-10: Ctrl-Z stops the job as a whole and fg goes on, with the terminal as the
// shell and as the program want it.
func TestCtrlZStopsAnAgentAndFgGoesOn(t *testing.T) {
	t.Parallel()
	i := drawing(t, fullScreen)
	shell := i.command("bash", "--norc", "-c", `set -m; "$0" agent --project p mine; echo "stopped-$? $(stty -a | grep -o '.icanon')"; read -r line; echo "line-$line"; fg; echo "end-$?"`, bin+"/nacre")
	screen, wait := i.attached(shell, true)
	screen.until("ready-2")
	screen.typeIn("\x1a")
	screen.until("\x1b[?1000l")
	screen.until("\x1b[?1049l")
	screen.until("stopped-148  icanon")
	screen.typeIn("hello\r")
	screen.until("line-hello")
	screen.until("\x1b[?1049h")
	screen.until("\x1b[?1000h")
	screen.until("drawn-at-")
	screen.typeIn("q")
	screen.until("end-5")
	wait().want(t, 0)
	if strings.Contains(i.made("typed.txt"), "\x1a") {
		t.Error("the program got Ctrl-Z")
	}
}

// F-135: a command that reads lines has no shell inside that could go on with it, so that Ctrl-Z stops nacre. A
// shell inside has the key for what it runs.
func TestCtrlZStopsACommandThatReadsLines(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a.txt", "a\n")
	shell := i.command("bash", "--norc", "-c", `set -m; "$0" exec --project p -- sh -c 'echo began; read -r x; echo got-$x'; echo "stopped-$?"; read -r line; echo "line-$line"; fg; echo "end-$?"
"$0" exec --project p -- bash --norc -c 'set -m; (echo inside; exec sleep 1000); echo "held-$?"; kill %%'; echo "all-$?"`, bin+"/nacre")
	screen, wait := i.attached(shell, true)
	screen.until("began\r\n")
	screen.typeIn("\x1a")
	screen.until("stopped-148")
	screen.typeIn("hello\r")
	screen.until("line-hello")
	screen.typeIn("more\r")
	screen.until("got-more")
	screen.until("end-0")
	screen.until("inside")
	screen.typeIn("\x1a")
	screen.until("held-148")
	screen.until("all-0")
	wait().want(t, 0)
}

// floods prints more than waits for a terminal, and counts in p/n how often it did. heldUp is a
// shell's wait for a time in which it did no more: what waits is as much as may.
const (
	floods = "echo began; until test -e go; do sleep 0.05; done; while :; do printf %050000d 0; echo >>n; done"
	heldUp = `until n=$(wc -l <p/n) && sleep 0.5 && test "$n" -ge 18 -a "$n" = "$(wc -l <p/n)"; do :; done 2>&-`
)

// U-01: a job that was stopped goes on in the background, and ends when its shell tells it to. It does with more
// output than waits for the terminal, and while what is typed there is for the shell.
func TestAStoppedJobIsEndedByItsShell(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.recording("echo began; until test -e go; do sleep 0.05; done")
	for name, c := range map[string]struct {
		goesOn    string
		arguments []string
	}{
		"a command that floods the terminal": {heldUp, []string{"exec", "--project", "p", "--", "sh", "-c", floods}},
		"a run":                              {"until test -e p/go; do sleep 0.05; done", []string{"run", "wait", "--project", "p", "--recording", rec, "--check", "true", "-v"}},
	} {
		t.Run(name, func(t *testing.T) {
			shell := i.command("bash", append([]string{"--norc", "-c", `set -m; "$0" "$@"; echo "stopped-$?"; read -r line; bg; ` + c.goesOn + `; kill %%; wait %%; echo "end-$?"`, bin + "/nacre"}, c.arguments...)...)
			screen, wait := i.attached(shell, true)
			screen.until("began")
			screen.typeIn("\x1a")
			screen.until("stopped-148")
			i.write("p/go", "")
			screen.typeIn("hello\rfor the shell alone\r")
			screen.until("end-130")
			wait().want(t, 0)
			check(t, os.Remove(filepath.Join(i.work, "p/go")))
		})
	}
}

// U-01: a job in the background whose terminal is closed ends, also where its output waits for that terminal. The
// kernel tells of the end only who is in the foreground.
func TestAJobEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	shell := i.command("bash", "--norc", "-c", `set -m; "$0" "$@"; read -r line; bg; `+heldUp+`; jobs -p >pid; echo "held-$?"; read -r line`,
		bin+"/nacre", "exec", "--session", "away", "--project", "p", "--", "sh", "-c", floods)
	screen, wait := i.attached(shell, true)
	screen.until("began")
	screen.typeIn("\x1a")
	screen.until("Stopped")
	i.write("p/go", "")
	screen.typeIn("\r")
	screen.until("held-0")
	check(t, screen.master.Close())
	wait()
	eventually(t, "the end of the job", func() bool {
		commandLine, _ := os.ReadFile("/proc/" + strings.TrimSpace(i.read("pid")) + "/cmdline") // it may be gone
		return len(commandLine) == 0
	})
	i.nacre("sessions", "list").want(t, 0, "done")
}

// U-12: what each answer stands for: whether the same call, or one with another risky value, is asked for again. A
// person is told what was remembered.
func TestWhatAnAnswerStandsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, again string
		asked      int
		told       string
	}{
		"once":                             {"y", "R-1", 2, "approved"},
		"for a number of calls":            {"3", "R-1", 1, "approved, and the same again, 3 times in all within 8 hours"},
		"exactly the same":                 {"e", "R-1", 1, "approved, and exactly the same again for 15 minutes"},
		"for the session":                  {"s", "R-1", 1, "approved, and the same again for 8 hours"},
		"for the session, another":         {"s", "R-2", 2, "approved, and the same again for 8 hours"},
		"whatever the tool is called with": {"t", "R-2", 1, "approved, and this tool with any arguments for 15 minutes"},
		"never":                            {"v", "R-2", 1, "denied, and this tool with any arguments for 8 hours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := drawing(t, `stty raw -echo; printf 'ready-%s' $((1+1)); until [ -e go ]; do sleep 0.1; done
for id in R-1 `+c.again+`; do ipc delete_reminder "{\"reminder_id\":\"$id\"}" >answers.txt 2>&1; done; touch over`)
			screen, wait := i.terminal("agent", "--project", "p", "--session", "asks", "mine")
			screen.until("ready-2")
			i.write("p/go", "")
			screen.until("press Ctrl-]")
			screen.press("\x1d", "y once")
			screen.press(c.key, given)
			eventually(t, "the last call", func() bool {
				for _, q := range i.questions() {
					i.nacre("approvals", "deny", q.ID) // it may be asked no more by then
				}
				return isThere(filepath.Join(i.work, "p/over"))
			})
			have := wait()
			if have.want(t, 0); !strings.Contains(have.stdout, "           "+c.told+"\r") {
				t.Errorf("it is told otherwise than %q:\n%s", c.told, have.stdout)
			}
			if asked := strings.Count(i.records("asks"), `"kind":"approval.ask"`); asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
		})
	}
}

// U-10: a terminal that is closed under a question answers nothing: the call is denied, for nobody
// said so, and the session ends whole.
func TestATerminalThatIsClosedAnswersNothing(t *testing.T) {
	t.Parallel()
	i := drawing(t, fullScreen)
	screen, wait := i.onTerminal([]string{"agent", "--project", "p", "--session", "closed", "mine"}, true)
	screen.until("ready-2")
	i.write("p/go", "")
	screen.until("press Ctrl-]")
	screen.press("\x1d", "y once")
	check(t, screen.master.Close())
	if r := wait(); r.code != 130 {
		t.Errorf("exit %d, want 130", r.code)
	}
	if left := i.questions(); len(left) > 0 {
		t.Errorf("still asked: %+v", left)
	}
	chain := i.told("closed")
	has(t, chain, `"interrupted"`, `"session.close"`)
	hasNo(t, chain, "in the overlay", "denied_by_person")
	i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{"list":"Work"}`).want(t, 0, "pay")
}

// U-01, U-10: a terminal that takes no output, as after Ctrl-S, keeps nobody from ending what prints there.
func TestATerminalThatTakesNothingHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/go", "")
	command := i.command(bin+"/nacre", "exec", "--project", "p", "--", "sh", "-c", floods)
	_, wait := i.attached(command, true) // of which nobody takes what is read
	check(t, i.command("bash", "-c", heldUp).Run())
	check(t, command.Process.Signal(syscall.SIGTERM))
	stuck := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer stuck.Stop()
	_ = command.Wait() // its state says how it ended
	if r := wait(); r.code != 130 {
		t.Errorf("exit %d, want 130", r.code)
	}
}

// F-114: a program that reads whole lines on the other screen has its question as an
// overlay too, and no line of nacre's in its picture.
func TestAQuestionIsAnOverlayOverAProgramThatReadsLines(t *testing.T) {
	t.Parallel()
	i := drawing(t, "true")
	screen, wait := i.terminal("exec", "--project", "p", "--", "sh", "-c",
		`printf '\033[?1049hready-%s\n' $((1+1)); until [ -e go ]; do sleep 0.1; done; ipc delete_reminder '{"reminder_id":"R-1"}' >answer.txt 2>&1; printf '\033[?1049lover-%s\n' $((2+2))`)
	screen.until("ready-2")
	i.write("p/go", "")
	screen.until("press Ctrl-]")
	screen.press("\x1d", "y once")
	screen.press("n", given)
	screen.until("over-4")
	wait().want(t, 0)
	picture, _, _ := strings.Cut(screen.text.String(), "over-4")
	hasNo(t, picture, "nacre approvals approve")
}

// U-10: over the real programs that people have in front of them.
func TestAQuestionIsAnOverlayOverRealPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ arguments, drawn, quits string }{
		"vim":  {"-u NONE greeting.txt", "hello", "\x1b:q!\r"},
		"less": {"greeting.txt", "hello", "q"},
		"htop": {"", "Load average", "q"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(name + " is not installed")
			}
			i := drawing(t, `(until [ -e go ]; do sleep 0.1; done; ipc delete_reminder '{"reminder_id":"R-1"}' >answer.txt 2>&1) &
`+name+` `+c.arguments)
			screen, wait := i.terminal("agent", "--project", "p", "mine")
			screen.shows(c.drawn)
			i.write("p/go", "")
			screen.until("press Ctrl-]")
			screen.press("\x1d", "y once")
			screen.press("y", given)
			screen.shows(c.drawn) // drawn anew
			eventually(t, "the answer", func() bool { return strings.Contains(i.made("answer.txt"), "R-1") })
			screen.quits(c.quits, wait).want(t, 0)
		})
	}
}
