package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/schedule"
)

// states are those of a schedule's ticks, the latest first.
func states(t *testing.T, s *schedule.Store, id string) []string {
	t.Helper()
	list, err := s.Ticks(t.Context(), id, 1000)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, tick := range list {
		found = append(found, tick.At.Format("02T15:04:05 ")+string(tick.State))
	}
	return found
}

// D-34: missed ticks are run once, or skipped, and once only.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy calendar.Policy
		run    []string
		rows   []string
	}{
		{"run once", calendar.RunOnce, []string{"2026-11-21 11:00:00"}, []string{"21T11:00:00 done"}},
		{"skip", calendar.Skip, nil, []string{"21T11:00:00 skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock(t, "2026-11-20 05:00:00")
			s := open(t, file(t), clock)
			d := draft(calendar.Cron, "0 * * * *")
			d.Missed = c.policy
			task := add(t, s, d)
			clock.set(t, "2026-11-21 11:59:00")
			wantTimes(t, "late", ran(t, s), c.run...)
			wantTimes(t, "again", ran(t, s))
			wantTimes(t, "rows", states(t, s, task.ID), c.rows...)
			clock.set(t, "2026-11-21 12:04:00")
			wantTimes(t, "in time", ran(t, s), "2026-11-21 12:00:00")
		})
	}
}

// D-34: whatever the clock does, a tick runs at most once, and a schedule does not
// rest until the clock is where it wrongly was.
func TestClockThatJumps(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	s := open(t, file(t), c)
	add(t, s, draft(calendar.Cron, "0 * * * *"))
	for _, step := range []struct {
		now  string
		want []string
	}{
		{"2026-11-21 06:00:00", []string{"2026-11-21 06:00:00"}},
		{"2026-11-21 05:59:58", nil}, // back by two seconds
		{"2026-11-21 06:00:00", nil},
		{"2026-11-21 07:00:00", []string{"2026-11-21 07:00:00"}},
		{"2026-11-21 04:10:00", nil},                             // back by hours
		{"2026-11-21 05:00:00", []string{"2026-11-21 05:00:00"}}, // before it was made: it did not run
		{"2026-11-21 06:00:00", nil},
		{"2026-11-21 07:59:00", nil},
		{"2036-11-21 08:30:00", []string{"2036-11-21 08:00:00"}}, // ten years ahead
		{"2026-11-21 08:00:00", nil},                             // and back
		{"2026-11-21 09:00:00", []string{"2026-11-21 09:00:00"}},
		{"1970-01-01 00:00:01", nil},
		{"2026-11-21 09:00:30", nil},
		{"2026-11-21 10:00:00", []string{"2026-11-21 10:00:00"}},
		{"2036-11-21 08:30:00", nil}, // the latest was run, when the clock was here before
		{"2036-11-21 09:00:00", []string{"2036-11-21 09:00:00"}},
	} {
		c.set(t, step.now)
		wantTimes(t, step.now, ran(t, s), step.want...)
	}
}

// D-34: what was forgotten of old ticks cannot make one of them come again.
func TestForgottenTicksDoNotComeAgain(t *testing.T) {
	c := newClock(t, "2026-11-21 00:00:00")
	s := open(t, file(t), c)
	task := add(t, s, draft(calendar.Interval, "1m"))
	seen := map[string]bool{}
	look := func() {
		for _, at := range ran(t, s) {
			if seen[at] {
				t.Errorf("%s came again", at)
			}
			seen[at] = true
		}
	}
	for range 150 {
		c.t = c.t.Add(time.Minute)
		look()
	}
	if rows := states(t, s, task.ID); len(seen) != 150 || len(rows) != 100 {
		t.Errorf("%d ran, %d are remembered", len(seen), len(rows))
	}
	c.set(t, "2026-11-21 00:00:00")
	for range 160 {
		c.t = c.t.Add(time.Minute)
		look()
	}
	if len(seen) != 160 {
		t.Errorf("%d ran in all, want 160", len(seen))
	}
}

// D-34: ticks of one schedule do not run beside each other; what is due meanwhile
// was missed.
func TestNoTickBesideAnother(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s, other := open(t, path, c), open(t, path, c)
	add(t, s, draft(calendar.Cron, "0 * * * *"))
	second := draft(calendar.Cron, "30 * * * *")
	second.Prompt = "another"
	add(t, s, second)
	c.set(t, "2026-11-21 06:00:00")
	first, _ := claimed(t, s)
	if err := s.Start(t.Context(), first.Tick); err != nil {
		t.Fatal(err)
	}
	c.set(t, "2026-11-21 09:10:00")
	wantTimes(t, "another schedule's", ran(t, other), "2026-11-21 08:30:00")
	wantTimes(t, "while it runs", ran(t, other))
	if err := s.Finish(t.Context(), first.Tick, schedule.Done, ""); err != nil {
		t.Fatal(err)
	}
	wantTimes(t, "after it", ran(t, other), "2026-11-21 09:00:00")
}

// D-34: a claim is one process's; what it gives back or leaves is another's.
func TestClaimsChangeHands(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	a, b := open(t, path, c), open(t, path, c)
	d := draft(calendar.Cron, "0 6 * * *")
	d.Missed = calendar.Skip
	task := add(t, a, d)
	c.set(t, "2026-11-21 06:00:00")
	mine, _ := claimed(t, a)
	if _, at := claimed(t, b); at != "" {
		t.Errorf("%s is claimed twice", at)
	}
	if err := b.Start(t.Context(), mine.Tick); !errors.Is(err, schedule.ErrLost) {
		t.Errorf("another process starts it: %v", err)
	}
	if err := a.Release(t.Context(), mine.Tick); err != nil {
		t.Fatal(err)
	}
	theirs, at := claimed(t, b)
	wantTimes(t, "given back", []string{at}, "2026-11-21 06:00:00")
	if err := a.Start(t.Context(), mine.Tick); !errors.Is(err, schedule.ErrLost) {
		t.Errorf("started by who gave it back: %v", err)
	}
	if left, err := a.Recover(t.Context(), unended); err != nil || len(left) > 0 {
		t.Errorf("taken from a process that lives: %v, %v", left, err)
	}
	if err := b.Close(); err != nil { // gone before it started
		t.Fatal(err)
	}
	if left, err := a.Recover(t.Context(), unended); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	again, at := claimed(t, a)
	wantTimes(t, "taken over", []string{at}, "2026-11-21 06:00:00")
	if again.Session != theirs.Session {
		t.Errorf("sessions %s and %s of one tick", again.Session, theirs.Session)
	}
	if err := errors.Join(a.Start(t.Context(), again.Tick), a.Close()); err != nil { // gone after it started
		t.Fatal(err)
	}
	last := open(t, path, c)
	left, err := last.Recover(t.Context(), unended)
	if err != nil || len(left) != 1 || left[0].State != schedule.Interrupted || left[0].Session != again.Session {
		t.Errorf("%+v, %v", left, err)
	}
	wantTimes(t, "after the end", ran(t, last))
	wantTimes(t, "rows", states(t, last, task.ID), "21T06:00:00 interrupted")
}

// unended is that no session of a process that died came to its end.
func unended(schedule.Tick) (schedule.State, string) { return "", "" }

// D-34: a tick whose session ended before its process could say so is over, with the session's own
// outcome. An answer that is no end changes nothing.
func TestATickWhoseSessionHadEnded(t *testing.T) {
	for name, c := range map[string]struct {
		state   schedule.State
		outcome string
		want    string
	}{
		"done":          {schedule.Done, "two mails", "21T06:00:00 done two mails"},
		"failed":        {schedule.Failed, "no brain", "21T06:00:00 failed no brain"},
		"nothing to do": {schedule.NothingToDo, "", "21T06:00:00 nothing-to-do "},
		"no end":        {schedule.Skipped, "whatever", "21T06:00:00 waiting interrupted: the process that ran it died"},
		"unknown":       {"", "", "21T06:00:00 waiting interrupted: the process that ran it died"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock(t, "2026-11-21 05:30:00")
			path := file(t)
			a := open(t, path, clock)
			task := add(t, a, draft(calendar.Cron, "0 6 * * *"))
			clock.set(t, "2026-11-21 06:00:00")
			first, _ := claimed(t, a)
			if err := errors.Join(a.Start(t.Context(), first.Tick), a.Close()); err != nil { // it dies
				t.Fatal(err)
			}
			b := open(t, path, clock)
			left, err := b.Recover(t.Context(), func(asked schedule.Tick) (schedule.State, string) {
				if asked.Session != first.Session {
					t.Errorf("asked for %s, want %s", asked.Session, first.Session)
				}
				return c.state, c.outcome
			})
			if err != nil || len(left) != 1 {
				t.Fatalf("%+v, %v", left, err)
			}
			have := left[0].At.Format("02T15:04:05 ") + string(left[0].State) + " " + left[0].Outcome
			list, err := b.Ticks(t.Context(), task.ID, 5)
			if have != c.want || err != nil || len(list) != 1 || list[0].State != left[0].State || list[0].Outcome != left[0].Outcome {
				t.Errorf("have %s and %+v, %v; want %s", have, list, err, c.want)
			}
			if left, err := b.Recover(t.Context(), unended); err != nil || len(left) > 0 {
				t.Errorf("a second time: %+v, %v", left, err)
			}
		})
	}
}

// D-34: a tick that was interrupted is carried on once where missed ticks are run,
// by whichever process, and then not again.
func TestAnInterruptedTickIsCarriedOnOnce(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := open(t, path, c)
	task := add(t, s, draft(calendar.Cron, "0 6 * * *"))
	c.set(t, "2026-11-21 06:00:00")
	first, _ := claimed(t, s)
	if err := errors.Join(s.Start(t.Context(), first.Tick), s.Close()); err != nil { // it dies
		t.Fatal(err)
	}
	c.set(t, "2026-11-21 20:00:00")
	s = open(t, path, c)
	left, err := s.Recover(t.Context(), unended)
	if err != nil || len(left) != 1 || left[0].State != schedule.Waiting {
		t.Fatalf("%+v, %v", left, err)
	}
	again, at := claimed(t, s)
	wantTimes(t, "carried on", []string{at}, "2026-11-21 06:00:00")
	if again.Begun != 1 || again.Session != first.Session {
		t.Errorf("%+v, want session %s, begun once", again.Tick, first.Session)
	}
	if err := s.Start(t.Context(), again.Tick); err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(t.Context(), again.Tick, "told to end"); err != nil { // it is told to end
		t.Fatal(err)
	}
	wantTimes(t, "after that", ran(t, s))
	wantTimes(t, "rows", states(t, s, task.ID), "21T06:00:00 interrupted")
	if err := s.Interrupt(t.Context(), again.Tick, "again"); !errors.Is(err, schedule.ErrLost) {
		t.Errorf("what is over is interrupted again: %v", err)
	}
}

// D-34: what was interrupted does not run beside a later tick of its schedule, nor
// once that is paused.
func TestAnInterruptedTickGivesWay(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s *schedule.Store, c *clock, id string){
		"a later tick is due": func(t *testing.T, _ *schedule.Store, c *clock, _ string) { c.set(t, "2026-11-21 09:01:00") },
		"it is paused": func(t *testing.T, s *schedule.Store, _ *clock, id string) {
			if err := s.Enable(t.Context(), id, false); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock(t, "2026-11-21 05:30:00")
			s := open(t, file(t), c)
			task := add(t, s, draft(calendar.Cron, "0 * * * *"))
			c.set(t, "2026-11-21 06:00:00")
			first, _ := claimed(t, s)
			if err := errors.Join(s.Start(t.Context(), first.Tick), s.Interrupt(t.Context(), first.Tick, "told to end")); err != nil {
				t.Fatal(err)
			}
			leave(t, s, c, task.ID)
			for _, at := range ran(t, s) {
				if at == "2026-11-21 06:00:00" {
					t.Error("it was carried on")
				}
			}
			rows := states(t, s, task.ID)
			if have := rows[len(rows)-1]; have != "21T06:00:00 interrupted" {
				t.Errorf("have %s", have)
			}
		})
	}
}

// D-34: a claim that was left is not run beside a later tick, and not at all where
// missed runs are skipped.
func TestClaimsLeftForLong(t *testing.T) {
	for _, c := range []struct {
		name, now string
		policy    calendar.Policy
		run, rows []string
	}{
		{"run once, soon", "06:30:00", calendar.RunOnce, []string{"2026-11-21 06:00:00"}, []string{"21T06:00:00 done"}},
		{"run once, late", "09:30:00", calendar.RunOnce, []string{"2026-11-21 09:00:00"}, []string{"21T09:00:00 done", "21T06:00:00 skipped"}},
		{"skip, at once", "06:01:00", calendar.Skip, []string{"2026-11-21 06:00:00"}, []string{"21T06:00:00 done"}},
		{"skip, soon", "06:30:00", calendar.Skip, nil, []string{"21T06:00:00 skipped"}},
		{"skip, late", "09:30:00", calendar.Skip, nil, []string{"21T09:00:00 skipped", "21T06:00:00 skipped"}},
		{"skip, late and in time", "09:01:00", calendar.Skip, []string{"2026-11-21 09:00:00"}, []string{"21T09:00:00 done", "21T06:00:00 skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock(t, "2026-11-21 05:30:00")
			path := file(t)
			a := open(t, path, clock)
			d := draft(calendar.Cron, "0 * * * *")
			d.Missed = c.policy
			task := add(t, a, d)
			clock.set(t, "2026-11-21 06:00:00")
			claimed(t, a)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			clock.set(t, "2026-11-21 "+c.now)
			b := open(t, path, clock)
			if _, err := b.Recover(t.Context(), unended); err != nil {
				t.Fatal(err)
			}
			wantTimes(t, "run", ran(t, b), c.run...)
			wantTimes(t, "rows", states(t, b, task.ID), c.rows...)
		})
	}
}

// D-34: an extra tick is run beside the calendar's, also of a paused schedule.
func TestRunNow(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := open(t, path, c)
	task := add(t, s, draft(calendar.Cron, "0 6 * * *"))
	if err := s.Enable(t.Context(), task.ID, false); err != nil {
		t.Fatal(err)
	}
	c.set(t, "2026-11-21 07:00:00")
	asked, err := s.RunNow(t.Context(), task.ID)
	if err != nil || asked.Session == schedule.SessionID(task.ID, asked.At, false) {
		t.Fatalf("%+v, %v", asked, err)
	}
	c.set(t, "2026-11-21 07:00:05")
	if again, err := s.RunNow(t.Context(), task.ID); err != nil || again.Session != asked.Session {
		t.Errorf("asked for again while it waits: %+v, %v", again, err)
	}
	wantTimes(t, "paused", ran(t, s), "2026-11-21 07:00:00")
	c.set(t, "2026-11-21 07:00:00")
	if _, err := s.RunNow(t.Context(), task.ID); err != nil {
		t.Error(err)
	}
	wantTimes(t, "asked for in the second in which it was run", ran(t, s))
	c.set(t, "2026-11-21 07:00:05")
	if err := s.Enable(t.Context(), task.ID, true); err != nil {
		t.Fatal(err)
	}
	wantTimes(t, "what was due while it was paused", ran(t, s))
	c.set(t, "2026-11-22 06:00:00")
	if _, err := s.RunNow(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	wantTimes(t, "both", ran(t, s), "2026-11-22 06:00:00", "2026-11-22 06:00:00")
	if _, err := s.RunNow(t.Context(), "task-none"); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
}

// D-34: a schedule that was removed while it ran is gone, and whoever ran it is told.
func TestRemovedWhileItRuns(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	s := open(t, file(t), c)
	task := add(t, s, draft(calendar.Once, "06:00"))
	c.set(t, "2026-11-21 06:00:00")
	claim, _ := claimed(t, s)
	if err := errors.Join(s.Start(t.Context(), claim.Tick), s.Remove(t.Context(), task.ID, "")); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), claim.Tick, schedule.Done, ""); !errors.Is(err, schedule.ErrLost) {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), task.ID, ""); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
}

// D-34: only a process that serves may claim, and it is seen as long as it lives.
func TestServed(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := opened(t, path, c)
	if _, _, err := s.Claim(t.Context()); err == nil {
		t.Error("claimed before it serves")
	}
	if err := s.Start(t.Context(), schedule.Tick{}); !errors.Is(err, schedule.ErrLost) {
		t.Error(err)
	}
	served := func(want bool) {
		t.Helper()
		if have, err := s.Served(); have != want || err != nil {
			t.Errorf("have %t, %v; want %t", have, err, want)
		}
	}
	served(false)
	other := open(t, path, c)
	served(true)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	served(false)
}
