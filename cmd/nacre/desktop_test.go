package main_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-13: a question is a notice on the person's desktop, which goes with its answer and says
// nothing that an agent chose; [approval] quiet turns it off.
func TestAQuestionIsANoticeOnTheDesktop(t *testing.T) {
	t.Parallel()
	d, bus := testpeer.NewDesktop(t)
	i := install(t)
	i.env = append(i.env, "DBUS_SESSION_BUS_ADDRESS="+bus, "TERM=xterm", "TERM_PROGRAM=")
	i.write("home/.config/nacre/config.toml", toolsConfig)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	asks := []string{"exec", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`}
	asking := i.begin(asks...)
	id := i.question().ID
	eventually(t, "the notice", func() bool { return d.Has() == "map[1:nacre: a question waits] 1" })
	if told := d.Told()[0]; told != "nacre: a question waits · nacre approvals shows it" {
		t.Errorf("the desktop was told %q", told)
	}
	i.nacre("approvals", "deny", id).want(t, 0)
	finish(t, asking)
	if have := d.Has(); have != "map[] 1" {
		t.Errorf("after the answer the desktop has %s", have)
	}
	i.write("home/.config/nacre/config.toml", toolsConfig+"[approval]\nquiet = true\n")
	asking = i.begin(asks...)
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	finish(t, asking)
	if told := d.Told(); len(told) != 1 {
		t.Errorf("the desktop was told %q, want nothing more", told)
	}
}
