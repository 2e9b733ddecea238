package terminal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// desktop is what shows notices on a bus.
type desktop struct {
	mu    sync.Mutex
	shown map[uint32]string
	all   []string
}

func (d *desktop) Notify(_ string, replaces uint32, _, summary, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if replaces == 0 {
		replaces = uint32(len(d.all) + 1)
	}
	d.shown[replaces] = summary
	d.all = append(d.all, summary+" · "+body)
	return replaces, nil
}

func (d *desktop) CloseNotification(id uint32) *dbus.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.shown, id)
	return nil
}

func (d *desktop) has() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.shown, len(d.all))
}

// onBus gives the address of a bus on which the desktop answers.
func onBus(t *testing.T, d *desktop) string {
	t.Helper()
	program := testpeer.Need(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address, config := "unix:path="+filepath.Join(dir, "bus"), filepath.Join(dir, "bus.conf")
	text := fmt.Sprintf(`<busconfig><type>session</type><listen>%s</listen><policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), program, "--nofork", "--config-file="+config)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	var conn *dbus.Conn
	testwait.Until(t, "the bus listens", func() bool {
		conn, err = dbus.Connect(address)
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Export(d, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return address
}

func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func always() bool { return true }

// U-13: a burst of questions is one notice on the desktop, which goes with the last of them
// and says nothing that an agent chose.
func TestADesktopIsToldOnceOfABurst(t *testing.T) {
	t.Parallel()
	d := &desktop{shown: map[uint32]string{}}
	now := time.Unix(1000, 0)
	n := terminal.NewNotice(variables(map[string]string{"DBUS_SESSION_BUS_ADDRESS": onBus(t, d), "TERM": "xterm-256color"}), true, func() time.Time { return now }, always)
	n.Waits("first")
	testwait.Until(t, "the first notice", func() bool { return d.has() == "map[1:nacre: a question waits] 1" })
	for more := range 100 {
		n.Waits(strconv.Itoa(more))
	}
	n.Settled("first")
	n.Settled("first")
	now = now.Add(time.Minute)
	n.Waits("last")
	testwait.Until(t, "the notice says how many", func() bool { return d.has() == "map[1:nacre: 101 questions wait] 2" })
	for more := range 100 {
		n.Settled(strconv.Itoa(more))
	}
	n.Settled("last")
	n.Close()
	if have := d.has(); have != "map[] 2" || d.all[0] != "nacre: a question waits · nacre approvals shows it" {
		t.Errorf("the desktop has %s of %q", have, d.all)
	}
	n.Waits("another")
	testwait.Until(t, "a new notice", func() bool { return strings.HasSuffix(d.has(), " 3") })
	n.Close()
	if have := d.has(); have != "map[] 3" {
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
		var printed strings.Builder
		if terminal.NewNotice(variables(c.env), true, time.Now, always).Print(&printed); printed.String() != c.want {
			t.Errorf("%s: have %q, want %q", name, printed.String(), c.want)
		}
	}
}

// M-46: in quiet hours nobody is told, and the first question after them tells of all that wait.
func TestQuietHoursAreKeptAtTheDesktop(t *testing.T) {
	t.Parallel()
	d := &desktop{shown: map[uint32]string{}}
	wanted := false
	tell := func() bool { return wanted }
	n := terminal.NewNotice(variables(map[string]string{"DBUS_SESSION_BUS_ADDRESS": onBus(t, d)}), true, time.Now, tell)
	n.Waits("asleep")
	n.Waits("gone")
	n.Settled("gone")
	kitty := terminal.NewNotice(variables(map[string]string{"TERM": "xterm-kitty"}), true, time.Now, tell)
	if said := kitty.Sequence(); said != "" {
		t.Errorf("the terminal is told %q", said)
	}
	wanted = true
	n.Waits("awake")
	testwait.Until(t, "the notice of both", func() bool { return d.has() == "map[1:nacre: 2 questions wait] 1" })
	n.Close()
	if kitty.Sequence() == "" || d.has() != "map[] 1" {
		t.Errorf("have %q and %s", kitty.Sequence(), d.has())
	}
}

// U-13: no bus, one that does not answer, and an address that would start a program keep
// nobody waiting.
func TestNoDesktopIsNoHindrance(t *testing.T) {
	t.Parallel()
	made := filepath.Join(t.TempDir(), "made")
	for _, address := range []string{"", "autolaunch:", "unixexec:path=/usr/bin/touch,argv1=" + made, "unix:path=/nowhere", "tcp:host=localhost,port=1"} {
		n := terminal.NewNotice(variables(map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}), true, time.Now, always)
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
