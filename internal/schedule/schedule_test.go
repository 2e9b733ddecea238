package schedule_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/schedule"
)

// clock is one that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func (c *clock) set(t *testing.T, text string) {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	c.t = at
}

func newClock(t *testing.T, text string) *clock {
	t.Helper()
	c := &clock{}
	c.set(t, text)
	return c
}

// open opens the schedules in a file, or in a database, as one more process would, and serves them.
func open(t *testing.T, path string, c *clock) *schedule.Store {
	t.Helper()
	s := opened(t, path, c)
	if err := s.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is open for one that does not serve.
func opened(t *testing.T, path string, c *clock) *schedule.Store {
	t.Helper()
	n, shared := nodes[path]
	var s *schedule.Store
	var err error
	if shared {
		s, err = schedule.OpenOn(t.Context(), n, c.now)
	} else {
		s, err = schedule.Open(t.Context(), path, c.now)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

// file is where a test's schedules are: a path, or below [TestOnPostgres] a database's name.
func file(t *testing.T) string {
	t.Helper()
	if strings.HasPrefix(t.Name(), onPostgres) {
		return newDatabase(t)
	}
	return filepath.Join(t.TempDir(), "state", schedule.FileName)
}

func draft(kind calendar.Kind, value string) schedule.Draft {
	return schedule.Draft{Group: "main", Kind: kind, Value: value, Prompt: "look", By: schedule.Operator, Label: nacre.Trusted}
}

func add(t *testing.T, s *schedule.Store, d schedule.Draft) schedule.Schedule {
	t.Helper()
	made, err := s.Add(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// claimed claims one tick, and says when it is of; "" for none.
func claimed(t *testing.T, s *schedule.Store) (schedule.Claim, string) {
	t.Helper()
	c, ok, err := s.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return c, ""
	}
	return c, c.At.Format("2006-01-02 15:04:05")
}

// ran takes all that is due to its end, and gives its times.
func ran(t *testing.T, s *schedule.Store) []string {
	t.Helper()
	times := []string{}
	for {
		c, at := claimed(t, s)
		if at == "" {
			return times
		}
		times = append(times, at)
		if err := errors.Join(s.Start(t.Context(), c.Tick), s.Finish(t.Context(), c.Tick, schedule.Done, "ok")); err != nil {
			t.Fatal(err)
		}
	}
}

func wantTimes(t *testing.T, what string, have []string, want ...string) {
	t.Helper()
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

// D-34: a tick is claimed when it is due, once, and its row says what came of it.
func TestTickFromClaimToEnd(t *testing.T) {
	c := newClock(t, "2026-11-21 05:00:00")
	s := open(t, file(t), c)
	task := add(t, s, draft(calendar.Cron, "0 6 * * *"))
	wantTimes(t, "before", ran(t, s))
	c.set(t, "2026-11-21 06:00:01")
	wantTimes(t, "at six", ran(t, s), "2026-11-21 06:00:00")
	wantTimes(t, "again", ran(t, s))
	e, err := s.Show(t.Context(), task.ID)
	if err != nil || e.Last == nil || e.Last.State != schedule.Done || e.Last.Outcome != "ok" || e.Next == nil || e.Next.Format(time.RFC3339) != "2026-11-22T06:00:00Z" {
		t.Errorf("%+v, %v", e, err)
	}
	if have, want := e.Last.Session, schedule.SessionID(task.ID, e.Last.At, false); have != want || len(have) != 14 || !strings.HasPrefix(string(have), "s-") {
		t.Errorf("session %q, want %q", have, want)
	}
}
