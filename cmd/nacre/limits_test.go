package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-12: output beyond the limit ends the command, in a pipe and in a file, with
// a reason, the code for limits and a record.
func TestOutputBeyondItsLimitEndsTheCommand(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[limits]\noutput_mib = 1\n")
	r := i.nacre("exec", "--session", "loud", "--", "sh", "-c", "yes; echo it went on")
	r.want(t, 124, "a limit ended the command: it printed more than 1 MiB")
	if len(r.stdout) > 1<<20 || strings.Contains(r.stdout, "went on") {
		t.Errorf("%d bytes came out", len(r.stdout))
	}
	has(t, i.records("loud"), `"kind":"sandbox.limit"`, "it printed more than 1 MiB")
	i.nacre("exec", "--", "sh", "-c", "yes >&2").want(t, 124, "it printed more than 1 MiB")
	// Both together count.
	i.nacre("exec", "--", "sh", "-c", "head -c 700000 /dev/zero; head -c 700000 /dev/zero >&2; sleep 60").want(t, 124)
	// What stays below comes out whole, in its order, with the command's own code.
	r = i.nacre("exec", "-q", "--", "sh", "-c", "head -c 1048576 /dev/zero; exit 7")
	if r.want(t, 7); len(r.stdout) != 1<<20 {
		t.Errorf("have %d bytes", len(r.stdout))
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-12: what a terminal shows counts as well, whether all streams are one or the
// output alone, and the terminal is as it was when it is over.
func TestOutputToATerminalCountsToo(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[limits]\noutput_mib = 1\n")
	for name, args := range map[string][]string{
		"a terminal":       {"exec", "--session", "shown", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && yes"},
		"the output alone": {"exec", "--session", "half", "--", "sh", "-c", "test -t 1 && test -t 2 && ! test -t 0 && yes"},
		"complaints":       {"exec", "--session", "quarter", "--", "sh", "-c", "test -t 2 && yes >&2"},
	} {
		t.Run(name, func(t *testing.T) {
			screen, wait := i.onTerminal(args, name == "a terminal")
			before := modes(t, screen.master)
			if r := wait(); r.code != 124 || len(r.stdout) > 2<<20 || !strings.Contains(r.stdout, "it printed more than 1 MiB") {
				t.Errorf("have exit %d and %d bytes: %.300q", r.code, len(r.stdout), r.stdout[max(0, len(r.stdout)-300):])
			}
			if modes(t, screen.master) != before {
				t.Error("the terminal is not as it was")
			}
			_ = screen.master.Close()
		})
	}
	has(t, i.records("shown"), `"kind":"sandbox.limit"`, "it printed more than 1 MiB")
}

// A program on a terminal has one, of the person's size, that is not the person's.
func TestACommandGetsATerminalThatIsNotThePersons(t *testing.T) {
	t.Parallel()
	i := install(t)
	screen, wait := i.onTerminal([]string{"exec", "-q", "--", "sh", "-c", "stty size <&1; printf 'one\\ntwo\\n'; stty -F /dev/stdout raw 2>&1 | head -c 0; echo end"}, false)
	before := modes(t, screen.master)
	if r := wait(); r.code != 0 || !strings.Contains(r.stdout, "40 100\r\none\r\ntwo\r\nend") {
		t.Errorf("have exit %d, %q", r.code, r.stdout)
	}
	if modes(t, screen.master) != before {
		t.Error("the person's terminal was set up from inside")
	}
	_ = screen.master.Close()
}

// The same holds for what it reads, where its output goes to a file. From the keyboard it gets what
// is typed, and no terminal to print on or set up.
func TestACommandDoesNotGetThePersonsKeyboard(t *testing.T) {
	t.Parallel()
	i := install(t)
	const inside = "read word; echo got-$word; test -t 0 || echo none; printf SHOWN >&0; stty raw -echo <&0"
	screen, wait := i.attached(i.command("sh", "-c", "nacre exec -q -- sh -c '"+inside+"' >out 2>/dev/null; cat out; echo over"), true)
	before := modes(t, screen.master)
	screen.typeIn("hello\r")
	if r := wait(); r.code != 0 || !strings.Contains(r.stdout, "got-hello\r\nnone\r\nover") || strings.Contains(r.stdout, "SHOWN") {
		t.Errorf("have exit %d, %q", r.code, r.stdout)
	}
	if modes(t, screen.master) != before {
		t.Error("the person's terminal was set up from inside")
	}
	_ = screen.master.Close()
}

// M-12: of a file that a command reads it gets what comes next, and not the file.
// What it does not read is there for the next one.
func TestACommandDoesNotGetTheFileItReads(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "python3")
	i := install(t)
	i.write("in", "secret\none\ntwo\n")
	check(t, os.Chmod(filepath.Join(i.work, "in"), 0o600))
	const inside = `import os
for attempt in (lambda: os.lseek(0, 0, 0), lambda: os.pread(0, 6, 0), lambda: open("/proc/self/fd/0", "r+"), lambda: os.utime(0, (1, 1))):
    try: print("did", attempt())
    except OSError: pass
try: os.fchmod(0, 0o666)
except OSError: pass
`
	i.write("inside.py", inside)
	script := "{ read first; nacre exec -q -- python3 -c \"$(cat inside.py)\"; while read word; do nacre exec -q -- true; echo next $word; done; } <in"
	out, err := i.command("sh", "-c", script).CombinedOutput()
	if err != nil || string(out) != "did None\nnext one\nnext two\n" && string(out) != "next one\nnext two\n" {
		t.Errorf("have %v, %s", err, out)
	}
	info, err := os.Stat(filepath.Join(i.work, "in"))
	check(t, err)
	if info.Mode().Perm() != 0o600 || info.ModTime().Unix() == 1 {
		t.Errorf("the file has mode %v and time %v", info.Mode(), info.ModTime())
	}
	// A long one comes whole, and an empty one ends.
	i.write("long", strings.Repeat("0123456789", 100_000))
	out, err = i.command("sh", "-c", "nacre exec -q -- wc -c <long; nacre exec -q -- wc -c </dev/null; : >empty; nacre exec -q -- wc -c <empty").CombinedOutput()
	if err != nil || string(out) != "1000000\n0\n0\n" {
		t.Errorf("have %v, %s", err, out)
	}
}

func modes(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// M-12: a stream of a command is what a shell makes of it: a file is appended to,
// both streams keep their order, a reader that leaves ends the writer.
func TestStreamsAreThoseOfAShell(t *testing.T) {
	t.Parallel()
	i := install(t)
	file := filepath.Join(i.work, "out")
	for name, c := range map[string]struct{ script, want string }{
		"a file":        {"nacre exec -q -- sh -c 'echo a; echo b' >" + file + "; cat " + file, "a\nb\n"},
		"appended":      {"echo 0 >" + file + "2; nacre exec -q -- sh -c 'echo a; echo b' >>" + file + "2; cat " + file + "2", "0\na\nb\n"},
		"both in order": {"nacre exec -q -- sh -c 'echo a; echo b >&2; echo c' 2>&1 | cat", "a\nb\nc\n"},
		"a reader goes": {"nacre exec -q -- yes | head -n 1", "y\n"},
		"input ends":    {"printf 'x\\ny\\n' | nacre exec -q -- wc -l", "2\n"},
		"nowhere":       {"nacre exec -q -- sh -c 'echo a' >/dev/null; echo $?", "0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := i.command("sh", "-c", c.script).CombinedOutput()
			if err != nil || strings.TrimLeft(string(out), " ") != c.want {
				t.Errorf("have %q, %v, want %q", out, err, c.want)
			}
		})
	}
}

// M-12: what fills the disk is ended, wherever in the project it hides.
func TestWhatFillsTheDiskIsEnded(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[limits]\ndisk_mib = 4\n")
	i.write("p/x", strings.Repeat("x", 8<<20)) // what was there does not count
	for name, script := range map[string]string{
		"one file":   "head -c 16000000 /dev/zero >big; sleep 60",
		"many":       "for n in $(seq 200); do head -c 100000 /dev/zero >f$n; done; sleep 60",
		"out of way": "mkdir -p a/.b/c; head -c 16000000 /dev/zero >a/.b/c/d; sleep 60",
		"a deep one": "for n in $(seq 300); do mkdir d; cd d; done; head -c 16000000 /dev/zero >x; sleep 60",
	} {
		i.nacre("exec", "--session", "fills", "--project", "p", "--time", "20s", "--", "sh", "-c", script).want(t, 124, "a limit ended the command: ", "4 MiB")
		has(t, i.records("fills"), `"kind":"sandbox.limit"`)
		i.write("p/x", strings.Repeat("x", 8<<20))
		if err := emptied(i.work+"/p", "x"); err != nil {
			t.Fatal(name, err)
		}
	}
	i.nacre("exec", "--project", "p", "--", "sh", "-c", "head -c 1000000 /dev/zero >small; sleep 1; rm x; sleep 1").want(t, 0)
}

// emptied empties a folder but for one file.
func emptied(dir, but string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != but && err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// M-12: the same holds for an agent, and nothing of its work lands.
func TestAnAgentThatFillsTheDiskIsEnded(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.config("[limits]\ndisk_mib = 4\n")
	r := i.nacre("run", "fill", "--session", "fills", "--recording", i.recording("head -c 16000000 /dev/zero >big; sleep 60"), "--project", "p", "--check", "true", "--time", "30s")
	r.want(t, 124, "it added more than 4 MiB")
	has(t, i.records("fills"), `"kind":"sandbox.limit"`, "it added more than 4 MiB")
	if _, err := os.Stat(i.work + "/p/big"); err == nil {
		t.Error("it landed")
	}
	i.nacre("audit", "verify").want(t, 0)
}

// takesWatches fills what the kernel gives a user of epoll's watches.
const takesWatches = `import os, select, time
files = [os.pipe()[0] for _ in range(1000)]
for _ in range(40):
    if os.fork() == 0:
        kept = []
        try:
            while True:
                kept.append(select.epoll())
                for f in files: kept[-1].register(f, select.EPOLLIN)
        except OSError:
            time.sleep(60)
time.sleep(60)
`

// M-12, M-16: an ordinary user's agent that leaves the user's programs no epoll watches is ended
// for it. Without one no program in Go starts, nacre's own neither, and nobody could stop the
// agent. For a moment it takes them from all that this user runs, so nothing else may.
func TestWhoTakesAllOfAUsersWatchesIsEnded(t *testing.T) {
	if os.Geteuid() == 0 || os.Getenv("NACRE_ALONE") == "" {
		t.Skip("an ordinary user of whom nothing else runs: NACRE_ALONE=1, as .ci/as-user sets it (root's sandboxes are users of their own)")
	}
	testpeer.Need(t, "python3")
	i := install(t)
	i.nacre("exec", "--session", "hog", "--", "python3", "-c", takesWatches).want(t, 124, "a limit ended the command: ", "epoll watches")
	has(t, i.records("hog"), `"kind":"sandbox.limit"`)
	i.nacre("exec", "-q", "--", "true").want(t, 0)
}
