package terminal_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func always() bool { return true }

// U-13: a burst of questions is one notice on the desktop, which goes with the last of them
// and says nothing that an agent chose.
func TestADesktopIsToldOnceOfABurst(t *testing.T) {
	t.Parallel()
	d, address := testpeer.NewDesktop(t)
	now := time.Unix(1000, 0)
	n := terminal.NewNotice(variables(map[string]string{"DBUS_SESSION_BUS_ADDRESS": address, "TERM": "xterm-256color"}), io.Discard, func() time.Time { return now }, always)
	n.Waits("first")
	testwait.Until(t, "the first notice", func() bool { return d.Has() == "map[1:nacre: a question waits] 1" })
	for more := range 100 {
		n.Waits(strconv.Itoa(more))
	}
	n.Settled("first")
	n.Settled("first")
	now = now.Add(time.Minute)
	n.Waits("last")
	testwait.Until(t, "the notice says how many", func() bool { return d.Has() == "map[1:nacre: 101 questions wait] 2" })
	for more := range 100 {
		n.Settled(strconv.Itoa(more))
	}
	n.Settled("last")
	n.Close()
	if have := d.Has(); have != "map[] 2" || d.Told()[0] != "nacre: a question waits · nacre approvals shows it" {
		t.Errorf("the desktop has %s of %q", have, d.Told())
	}
	n.Waits("another")
	testwait.Until(t, "a new notice", func() bool { return strings.HasSuffix(d.Has(), " 3") })
	n.Close()
	if have := d.Has(); have != "map[] 3" {
		t.Errorf("after the end the desktop has %s", have)
	}
}

// U-13: a terminal that passes notices on is told by itself, and no other.
func TestATerminalIsToldInItsOwnWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"kitty":            {map[string]string{"TERM": "xterm-kitty"}, "\x1b]99;i=nacre:o=unfocused;nacre: a question waits\x1b\\"},
		"foot":             {map[string]string{"TERM": "foot"}, "\x1b]777;notify;nacre;a question waits\x1b\\"},
		"iTerm2":           {map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;nacre: a question waits\x1b\\"},
		"kitty below tmux": {map[string]string{"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, ""},
		"xterm":            {map[string]string{"TERM": "xterm-256color"}, ""},
		"none":             {nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var printed strings.Builder
			n := terminal.NewNotice(variables(c.env), &printed, time.Now, always)
			n.Waits("one")
			n.Waits("another")
			synctest.Wait()
			n.Close()
			if printed.String() != c.want {
				t.Errorf("%s: have %q, want %q", name, printed.String(), c.want)
			}
		})
	}
}

// M-46: in quiet hours nobody is told. When they end, who is before the desktop or the terminal is
// told of all that waits then, once, whether or not another question comes.
func TestAQuestionThatOutlivesQuietHoursIsTold(t *testing.T) {
	t.Parallel()
	d, address := testpeer.NewDesktop(t)
	for _, c := range []struct {
		name   string
		env    map[string]string
		later  func(n *terminal.Notice)
		want   string
		screen string
	}{
		{"by itself", map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}, func(*terminal.Notice) {}, "nacre: a question waits · nacre approvals shows it", ""},
		{"with another", map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}, func(n *terminal.Notice) { n.Waits("awake") }, "nacre: 2 questions wait · nacre approvals shows it", ""},
		{"on a terminal", map[string]string{"TERM": "foot"}, func(*terminal.Notice) {}, "", "\x1b]777;notify;nacre;a question waits\x1b\\"},
		{"no more", map[string]string{"TERM": "foot"}, func(n *terminal.Notice) { n.Settled("asleep") }, "", ""},
	} {
		before := len(d.Told())
		synctest.Test(t, func(t *testing.T) {
			var wanted atomic.Bool
			var printed strings.Builder
			n := terminal.NewNotice(variables(c.env), &printed, time.Now, wanted.Load)
			n.Waits("asleep")
			n.Waits("gone")
			n.Settled("gone")
			time.Sleep(8 * time.Hour)
			if said := d.Told(); len(said) != before || printed.Len() > 0 {
				t.Errorf("%s: in quiet hours somebody was told %q, %q", c.name, said, printed.String())
			}
			wanted.Store(true)
			c.later(n)
			time.Sleep(8 * time.Hour)
			n.Close()
			if said := strings.Join(d.Told()[before:], "; "); said != c.want || printed.String() != c.screen {
				t.Errorf("%s: have %q and %q, want %q and %q", c.name, said, printed.String(), c.want, c.screen)
			}
		})
	}
}

// U-13: no bus, one that does not answer, and an address that would start a program keep
// nobody waiting.
func TestNoDesktopIsNoHindrance(t *testing.T) {
	t.Parallel()
	made := filepath.Join(t.TempDir(), "made")
	for _, address := range []string{"", "autolaunch:", "unixexec:path=/usr/bin/touch,argv1=" + made, "unix:path=/nowhere", "tcp:host=localhost,port=1"} {
		n := terminal.NewNotice(variables(map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}), io.Discard, time.Now, always)
		n.Waits("one")
		n.Settled("one")
		n.Close()
	}
	if _, err := os.Lstat(made); err == nil {
		t.Error("an address started a program")
	}
	var nobody *terminal.Notice
	nobody.Waits("one")
	nobody.Settled("one")
	nobody.Close()
}
