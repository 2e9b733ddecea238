package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testwait"
)

// lastQuestion is what a terminal is asked last, so that all it answers has come before.
const lastQuestion = "\x1b[c"

// U-10: what a terminal answers after the program that asked is gone, or is stopped, is not
// typed into the shell, which has a line of its own.
func TestNothingIsLeftOfATerminalsAnswers(t *testing.T) {
	t.Parallel()
	i, _ := ownAgent(t, `stty raw -echo; printf 'drawn\033[6n\033]11;?\033\\'; [ -e go ] || sleep 1000`)
	shell := i.command("bash", "--norc", "-c", `set -m; "$0" agent -q --project p mine; echo "stopped-$?"; read -r line; echo "line-$line"; job=$(jobs -p); kill %%; wait -f "$job"; echo "killed-$?"
touch p/go; "$0" agent -q --project p mine; echo "end-$?"; read -r line; echo "line-$line"`, bin+"/nacre")
	screen, wait := i.attached(shell, true)
	screen.until("drawn\x1b[6n\x1b]11;?\x1b\\")
	screen.typeIn("\x1a")
	screen.until("\x1b[999B\r\n" + lastQuestion)
	screen.typeIn("\x1b[24;80R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?62;22c")
	screen.until("stopped-148")
	screen.typeIn("first\r")
	screen.until("line-first\r\n")
	screen.until("killed-130") // one that is stopped can be ended, too
	screen.until("drawn\x1b[6n\x1b]11;?\x1b\\")
	screen.until(lastQuestion)
	screen.typeIn("\x1b[24;80R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?62;22c")
	screen.until("end-0")
	screen.typeIn("second\r")
	screen.until("line-second\r\n")
	wait().want(t, 0)
}

// U-23: what follows a session ends in silence when a person presses Ctrl-C, and when nobody
// reads it any more. With -q, a session that goes on by itself is named, and nothing else.
func TestWhatFollowsASessionEndsInSilence(t *testing.T) {
	t.Parallel()
	i := install(t)
	begun := i.nacre("exec", "-q", "--detach", "--session", "work", "--", "sleep", "1000000")
	if begun.want(t, 0); begun.stdout != "work\n" || begun.stderr != "" {
		t.Fatalf("have %q and %q", begun.stdout, begun.stderr)
	}
	t.Cleanup(func() { i.nacre("sessions", "stop", "work").want(t, 0) })
	for _, args := range [][]string{{"logs", "-f", "work"}, {"audit", "show", "-f", "work"}, {"ps", "-f"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			screen, wait := i.attached(i.command(bin+"/nacre", args...), true)
			screen.until("work")
			screen.typeIn("\x03")
			if r := wait(); r.code != 130 || strings.Contains(r.stdout, "nacre: ") {
				t.Errorf("Ctrl-C: exit %d\n%s", r.code, r.stdout)
			}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			unread := i.command(bin+"/nacre", args...)
			unread.Stdout, unread.Stderr = write, &said
			if err := unread.Start(); err != nil {
				t.Fatal(err)
			}
			_ = write.Close() // the command has its own
			first := make([]byte, 1)
			if _, err := read.Read(first); err != nil {
				t.Fatal(err)
			}
			_ = read.Close()
			ended := make(chan error, 1)
			go func() { ended <- unread.Wait() }()
			testwait.Until(t, "the end of what nobody reads", func() bool { return len(ended) == 1 })
			if said.String() != "" {
				t.Errorf("nobody reads it: %q", said.String())
			}
		})
	}
}
