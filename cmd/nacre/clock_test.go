package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/nacre-dev/nacre/assembly"
)

// wallClock is one that somebody sets on or back, while the time goes on that the machine is awake.
type wallClock struct{ by atomic.Int64 }

func (c *wallClock) set(by time.Duration) { c.by.Store(int64(by)) }

func (c *wallClock) now() time.Time {
	by := c.by.Load()
	t := time.Now().Add(time.Duration(by))
	(*struct {
		_     uint64
		awake int64
	})(unsafe.Pointer(&t)).awake -= by
	return t
}

// M-42, M-46, bad input "clocks that jump": while a session asks, its clock is set on by a day. The question's time is
// then over, so an answer does nothing and is recorded as late. Set back by an hour, the question that waits is
// answered, and what was let through for a time holds no longer than that. After the next jump the person is asked
// again. The clock of a program cannot be set from outside, since Go reads it without the C library: the session is
// this process's, and whoever answers is nacre.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config(toolsConfig)
	i.project()
	i.write("home/.config/nacre/policy.toml", "[[rules]]\naction = \"ask\"\nmatch = { safety_class = [\"WRITE\"] }\n")
	clock := &wallClock{}
	rt, err := assembly.Open(t.Context(), assembly.Options{Getenv: i.getenv, Executable: filepath.Join(bin, "nacre"), Version: "test", Now: clock.now})
	check(t, err)
	out, err := os.Create(filepath.Join(i.work, "out"))
	check(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := rt.Exec(t.Context(), assembly.Exec{
			Argv:    []string{"sh", "-c", `for n in 1 2 3 4; do ipc create_reminder '{"title":"pay","list":"Work"}'; echo ended-$n; until test -e go-$n; do sleep 0.02; done; done`},
			Project: filepath.Join(i.work, "p"), Group: "main", Session: "jumps", Streams: assembly.Streams{Stdout: out, Stderr: out},
		})
		ended <- err
	}()
	said := func() string { return fileText(filepath.Join(i.work, "out")) }
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the command says\n%s", said())
		}
	})
	over := func(n string) {
		t.Helper()
		until(t, "the end of call "+n, func() bool { return strings.Contains(said(), "ended-"+n) })
	}

	late := i.question()
	clock.set(24 * time.Hour)
	i.nacre("approvals", "approve", late.ID).want(t, 1, "nobody answered in time")
	over("1")
	has(t, said(), "CONFIRMATION_TIMEOUT")
	i.nacre("approvals", "approve", late.ID).want(t, 1, "no question \""+late.ID+"\" is waiting")

	i.write("p/go-1", "")
	answered := i.question()
	clock.set(23 * time.Hour)
	i.nacre("approvals", "approve", answered.ID, "--for", "15m").want(t, 0, "answered")
	over("2")
	i.write("p/go-2", "")
	over("3") // it stands
	if waits := i.questions(); len(waits) != 0 {
		t.Errorf("what was let through is asked about: %+v", waits)
	}

	clock.set(47 * time.Hour)
	i.write("p/go-3", "")
	again := i.question()
	i.nacre("approvals", "deny", again.ID).want(t, 0)
	over("4")
	i.write("p/go-4", "")
	check(t, <-ended)
	if made := strings.Count(said(), `"status":"created"`); made != 2 {
		t.Errorf("%d reminders were made, want 2:\n%s", made, said())
	}
	check(t, out.Close())
	has(t, i.records("jumps"), `"outcome":"expired"`, `"reason":"late"`, `"outcome":"approved"`, `"outcome":"denied"`)
	i.nacre("audit", "verify").want(t, 0)
}
