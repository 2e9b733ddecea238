package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// desktop is what shows notices on a bus, by the words of each.
type desktop struct {
	mu    sync.Mutex
	shown map[uint32]string
	told  uint32
}

func (d *desktop) Notify(_ string, replaces uint32, _, summary, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told++; replaces == 0 {
		replaces = d.told
	}
	d.shown[replaces] = summary + " · " + body
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
	return fmt.Sprint(d.shown)
}

// bus gives the address of a bus on which the desktop answers.
func (d *desktop) bus(t *testing.T) string {
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
	eventually(t, "the bus listens", func() bool {
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

// U-13: a question is a notice on the person's desktop, which goes with its answer and says
// nothing that an agent chose; [approval] quiet turns it off.
func TestAQuestionIsANoticeOnTheDesktop(t *testing.T) {
	t.Parallel()
	d := &desktop{shown: map[uint32]string{}}
	i := install(t)
	i.env = append(i.env, "DBUS_SESSION_BUS_ADDRESS="+d.bus(t), "TERM=xterm", "TERM_PROGRAM=")
	i.write("home/.config/nacre/config.toml", toolsConfig)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	asks := []string{"exec", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`}
	asking := i.begin(asks...)
	id := i.question().ID
	eventually(t, "the notice", func() bool { return d.has() == "map[1:nacre: a question waits · nacre approvals shows it]" })
	i.nacre("approvals", "deny", id).want(t, 0)
	finish(t, asking)
	if have := d.has(); have != "map[]" {
		t.Errorf("after the answer the desktop has %s", have)
	}
	i.write("home/.config/nacre/config.toml", toolsConfig+"[approval]\nquiet = true\n")
	asking = i.begin(asks...)
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	finish(t, asking)
	if d.told != 1 {
		t.Errorf("the desktop was told %d times, want once", d.told)
	}
}
