package testpeer

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

// Desktop is what shows notices on a session bus, as org.freedesktop.Notifications.
type Desktop struct {
	mu    sync.Mutex
	shown map[uint32]string
	last  uint32 // the number of the newest notice
	told  []string
}

// NewDesktop starts a bus on which the desktop answers until the test ends, and gives its
// address. The test is skipped by name where there is no dbus-daemon.
func NewDesktop(t testing.TB) (d *Desktop, address string) {
	t.Helper()
	conn, address := NewBus(t)
	d = &Desktop{shown: map[uint32]string{}}
	if err := conn.Export(d, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return d, address
}

// Notify shows a notice, as the bus asks.
func (d *Desktop) Notify(_ string, replaces uint32, _, summary, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) { //nolint:revive // the arguments are the interface's
	d.mu.Lock()
	defer d.mu.Unlock()
	if replaces == 0 {
		d.last++
		replaces = d.last
	}
	d.shown[replaces] = summary
	d.told = append(d.told, summary+" · "+body)
	return replaces, nil
}

// CloseNotification takes a notice away, as the bus asks.
func (d *Desktop) CloseNotification(id uint32) *dbus.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.shown, id)
	return nil
}

// Has says which notices it shows by number, with the summary of each, and how many it was
// told of, such as "map[1:a question waits] 1".
func (d *Desktop) Has() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.shown, len(d.told))
}

// Told are the words of all notices that it was told of, whether it shows them or not.
func (d *Desktop) Told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}
