package assembly_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// scheduler is an installation whose clock a test moves.
type scheduler struct {
	*assembly.Runtime
	t   *testing.T
	now atomic.Int64
	// looks counts how often somebody looked at the clock.
	looks atomic.Int64
	env   map[string]string
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	home := t.TempDir()
	s := &scheduler{t: t, env: map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run"), "TZ": "Europe/Berlin"}}
	s.now.Store(time.Date(2026, 11, 21, 5, 30, 0, 0, time.UTC).Unix())
	if err := os.Mkdir(s.env["XDG_RUNTIME_DIR"], 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	s.Runtime, err = assembly.Open(t.Context(), assembly.Options{
		Getenv: func(name string) string { return s.env[name] }, Executable: filepath.Join(home, "nacre"), Version: "test",
		Now: func() time.Time { s.looks.Add(1); return time.Unix(s.now.Load(), 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scheduler) add(n assembly.NewSchedule) assembly.ScheduleStatus {
	s.t.Helper()
	added, err := s.AddSchedule(s.t.Context(), n)
	if err != nil {
		s.t.Fatal(err)
	}
	return added
}

// serve serves the schedules until the returned function is called.
func (s *scheduler) serve(start func(context.Context, schedule.Claim) (string, error), created chan string) (stop func() error) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.RunSchedules(ctx, start,
			func(_ context.Context, made schedule.Schedule) { created <- made.ID },
			func(_ context.Context, t schedule.Tick) { s.t.Errorf("%s was left by a process that died", t.Session) })
	}()
	return func() error { cancel(); return <-ended }
}

// looked waits until the schedules were looked at by the clock as it is.
func (s *scheduler) looked() {
	seen := s.looks.Load()
	testwait.Until(s.t, "three looks at the schedules", func() bool { return s.looks.Load() >= seen+3 })
}

// ends waits until a schedule's latest tick is over, and gives it.
func (s *scheduler) ends(id string) assembly.TickStatus {
	s.t.Helper()
	var last assembly.TickStatus
	testwait.Until(s.t, "the end of a tick of "+id, func() bool {
		_, ticks, err := s.Schedule(s.t.Context(), id, 1)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(ticks) != 1 {
			return false
		}
		last = ticks[0]
		return last.State != "waiting" && last.State != "claimed" && last.State != "started"
	})
	return last
}

// D-34: what is due is started, in the tick's own session, and what came of it is kept.
func TestSchedulesAreServed(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := newScheduler(t)
	tasks := map[string]string{}
	for _, prompt := range []string{"succeed", "fail", "find nothing"} {
		tasks[prompt] = s.add(assembly.NewSchedule{Every: "30m", Prompt: prompt}).ID
	}
	created, sessions := make(chan string, 10), make(chan schedule.Claim, 10)
	stop := s.serve(func(_ context.Context, c schedule.Claim) (string, error) {
		sessions <- c
		switch c.Task.Prompt {
		case "fail":
			return "", errors.New("no brain is ready")
		case "find nothing":
			return string(schedule.NothingToDo), nil
		}
		return "two mails", nil
	}, created)
	for range tasks {
		<-created
	}
	if len(sessions) > 0 {
		t.Error("started before it is due")
	}
	s.now.Add(1800)
	for range tasks {
		c := <-sessions
		if want := schedule.SessionID(c.Task.ID, c.At, false); c.Session != want {
			t.Errorf("session %s, want %s", c.Session, want)
		}
	}
	for prompt, want := range map[string][2]string{"succeed": {"done", "two mails"}, "fail": {"failed", "no brain is ready"}, "find nothing": {"nothing-to-do", ""}} {
		if have := s.ends(tasks[prompt]); have.State != want[0] || have.Outcome != want[1] {
			t.Errorf("%s: %+v", prompt, have)
		}
	}
	asked, err := s.RunSchedule(t.Context(), tasks["succeed"])
	if err != nil {
		t.Fatal(err)
	}
	if c := <-sessions; !c.Extra || c.Session != asked.Session {
		t.Errorf("%+v, want %+v", c, asked)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	var notReady *assembly.NotReady
	if _, err := s.RunSchedule(t.Context(), tasks["succeed"]); !errors.As(err, &notReady) {
		t.Errorf("asked of nobody: %v", err)
	}
}

// D-34: what runs when the process is told to end is waited for. The next one to
// serve carries it on, once, in the same session, or not at all where missed ticks are skipped.
func TestServingEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := newScheduler(t)
	again, never := s.add(assembly.NewSchedule{Every: "30m", Prompt: "again"}), s.add(assembly.NewSchedule{Every: "30m", Prompt: "never", Missed: "skip"})
	s.now.Add(1800)
	begun := make(chan schedule.Claim, 10)
	work := func(ctx context.Context, c schedule.Claim) (string, error) {
		begun <- c
		<-ctx.Done()
		return "", ctx.Err()
	}
	stop := s.serve(work, make(chan string, 10))
	first := map[string]schedule.Claim{}
	for range 2 {
		c := <-begun
		first[c.Task.ID] = c
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if have := s.ends(never.ID); have.State != "interrupted" {
		t.Errorf("%+v", have)
	}
	for _, state := range []string{"waiting", "interrupted"} {
		if _, ticks, err := s.Schedule(t.Context(), again.ID, 9); err != nil || len(ticks) != 1 || ticks[0].State != state {
			t.Fatalf("%+v, %v, want one that is %s", ticks, err, state)
		}
		if state == "interrupted" {
			break
		}
		stop = s.serve(work, make(chan string, 10))
		if c := <-begun; c.Task.ID != again.ID || c.Begun != 1 || c.Session != first[again.ID].Session {
			t.Errorf("%+v, want it in session %s", c.Tick, first[again.ID].Session)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	if len(begun) > 0 {
		t.Errorf("%+v was begun, too", <-begun)
	}
}

// D-34: a clock that jumps runs no tick twice, and rests no schedule: a day forward
// makes up for what was missed, once, and a day back for nothing.
func TestServingWhileTheClockJumps(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := newScheduler(t)
	s.add(assembly.NewSchedule{Cron: "0 * * * *", Zone: "UTC", Prompt: "x"})
	done := make(chan string, 100)
	stop := s.serve(func(_ context.Context, c schedule.Claim) (string, error) {
		done <- c.At.UTC().Format("02T15:04")
		return "", nil
	}, make(chan string, 10))
	for _, step := range []struct{ now, want string }{
		{"2026-11-21T06:00:00Z", "21T06:00"},
		{"2026-11-22T06:30:00Z", "22T06:00"}, // a day ahead
		{"2026-11-21T06:30:00Z", ""},         // and back
		{"2026-11-21T07:00:00Z", "21T07:00"},
		{"2026-11-20T07:30:00Z", ""}, // a day back: nothing is made up for
		{"2026-11-21T08:00:00Z", "21T08:00"},
		{"2026-11-22T07:00:00Z", "22T07:00"}, // not 06:00 again
	} {
		now, err := time.Parse(time.RFC3339, step.now)
		if err != nil {
			t.Fatal(err)
		}
		s.now.Store(now.Unix())
		if step.want == "" {
			s.looked()
			continue
		}
		select {
		case have := <-done:
			if have != step.want {
				t.Errorf("at %s: have %s, want %s", step.now, have, step.want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("at %s: nothing was run, want %s", step.now, step.want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(done) > 0 {
		t.Errorf("%s ran, too", <-done)
	}
}

// D-34: a schedule is read in the machine's zone unless it names one.
func TestLocalZone(t *testing.T) {
	s := newScheduler(t)
	if added := s.add(assembly.NewSchedule{At: "17:00", Prompt: "x"}); added.Value != "2026-11-21T17:00:00+01:00" {
		t.Errorf("%+v", added)
	}
	for tz, want := range map[string]string{":America/New_York": "America/New_York", "EST5EDT": "EST5EDT", "<+01>-1": "UTC", "/etc/passwd": "UTC"} {
		if s.env["TZ"] = tz; s.LocalZone() != want {
			t.Errorf("TZ=%s: have %s, want %s", tz, s.LocalZone(), want)
		}
	}
}
