package schedule_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/schedule"
)

// This test's own binary is the daemons: serveEnv names the schedules that it
// serves, stopEnv the step after which it waits to be killed.
const (
	serveEnv = "SCHEDULE_TEST_SERVE"
	stopEnv  = "SCHEDULE_TEST_STOP"
	// lapse is how much faster the daemons' clock goes than ours.
	lapse = 600
)

func TestMain(m *testing.M) {
	if path := os.Getenv(serveEnv); path != "" {
		fmt.Fprintln(os.Stderr, serve(path, os.Getenv(stopEnv)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// lapsed is a clock that goes fast, and says the same in all processes.
func lapsed(start time.Time) func() time.Time {
	return func() time.Time { return start.Add(time.Since(start) * lapse) }
}

// serve takes ticks to their ends until it is killed. What it starts it appends to
// a log beside the file.
func serve(path, stop string) error {
	ctx := context.Background()
	start, err := time.Parse(time.RFC3339Nano, os.Getenv("SCHEDULE_TEST_START"))
	if err != nil {
		return err
	}
	s, err := schedule.Open(ctx, path, lapsed(start))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(path+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err = errors.Join(err, s.Serve(ctx)); err != nil {
		return err
	}
	at := func(step string, c schedule.Claim) {
		fmt.Println(step, c.Schedule, c.At.Unix())
		if step == stop {
			_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		}
	}
	for {
		_, err := s.Recover(ctx, unended)
		if err != nil {
			return err
		}
		c, ok, err := s.Claim(ctx)
		if err != nil {
			return err
		}
		if !ok {
			time.Sleep(2 * time.Millisecond) // as a daemon does
			continue
		}
		at("claimed", c)
		if err := s.Start(ctx, c.Tick); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(log, c.Schedule, c.At.Unix()); err != nil {
			return err
		}
		at("started", c)
		if err := s.Finish(ctx, c.Tick, schedule.Done, "ok"); err != nil {
			return err
		}
		at("finished", c)
	}
}

// daemon is a process that serves the schedules.
type daemon struct {
	*exec.Cmd
	lines *bufio.Scanner
	stdin io.Closer
}

func start(t *testing.T, path, stop string, began time.Time) *daemon {
	t.Helper()
	d := &daemon{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	d.Env = append(os.Environ(), serveEnv+"="+path, stopEnv+"="+stop, "SCHEDULE_TEST_START="+began.Format(time.RFC3339Nano))
	d.Stderr = os.Stderr
	out, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if d.stdin, err = d.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewScanner(out)
	return d
}

func (d *daemon) kill() {
	_ = d.Process.Kill()
	_ = d.Wait() // it was killed
	_ = d.stdin.Close()
}

// until reads what a daemon does up to the n-th step of a kind, and gives that line.
func (d *daemon) until(t *testing.T, step string, n int) string {
	t.Helper()
	for d.lines.Scan() {
		if strings.HasPrefix(d.lines.Text(), step) {
			if n--; n == 0 {
				return d.lines.Text()
			}
		}
	}
	t.Fatalf("the daemon ended before it %s", step)
	return ""
}

// D-34: two daemons on one file, killed again and again, start each tick once.
func TestOneStartForEachTick(t *testing.T) {
	path, began := file(t), time.Now()
	s, err := schedule.Open(t.Context(), path, lapsed(began))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var ids []string
	for range 10 {
		d := draft(calendar.Interval, "1m")
		d.Missed = calendar.Skip
		ids = append(ids, add(t, s, d).ID)
	}
	stays := start(t, path, "", began)
	defer stays.kill()
	for _, stop := range []string{"claimed", "started", "finished", "", ""} {
		dies := start(t, path, stop, began)
		if stop != "" {
			dies.until(t, stop, 1)
		} else {
			dies.until(t, "finished", 20)
		}
		dies.kill()
	}
	stays.until(t, "finished", 100)
	stays.kill()
	log, err := os.ReadFile(path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(log)) {
		if seen[line] {
			t.Errorf("started twice: %s", line)
		}
		seen[line] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d were started", len(seen))
	}
	for _, id := range ids {
		list, err := s.Ticks(t.Context(), id, 1000)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s has %d ticks, %v", id, len(list), err)
		}
	}
}

// D-34: a daemon is killed in each state. Another takes over what was not started, and deals with
// what was as the schedule says.
func TestKilledInEachState(t *testing.T) {
	for _, c := range []struct {
		policy calendar.Policy
		stop   string
		again  bool
		want   schedule.State
	}{
		{calendar.RunOnce, "claimed", true, schedule.Done},
		{calendar.RunOnce, "started", true, schedule.Done},
		{calendar.RunOnce, "finished", false, schedule.Done},
		{calendar.Skip, "claimed", true, schedule.Done},
		{calendar.Skip, "started", false, schedule.Interrupted},
		{calendar.Skip, "finished", false, schedule.Done},
	} {
		t.Run(string(c.policy)+" "+c.stop, func(t *testing.T) {
			path, began := file(t), time.Now()
			s, err := schedule.Open(t.Context(), path, lapsed(began))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			d := draft(calendar.Interval, "8000h")
			d.Missed = c.policy
			task := add(t, s, d)
			if _, err := s.RunNow(t.Context(), task.ID); err != nil {
				t.Fatal(err)
			}
			first := start(t, path, c.stop, began)
			line := first.until(t, c.stop, 1)
			first.kill()
			if err := s.Serve(t.Context()); err != nil {
				t.Fatal(err)
			}
			left, err := s.Recover(t.Context(), unended)
			if err != nil || (c.stop == "started") != (len(left) == 1) {
				t.Errorf("%+v, %v", left, err)
			}
			again := ran(t, s)
			if c.again != (len(again) == 1) {
				t.Errorf("after %s: run again: %v", line, again)
			}
			list, err := s.Ticks(t.Context(), task.ID, 10)
			if err != nil || len(list) != 1 || list[0].State != c.want {
				t.Errorf("have %+v, %v; want %s", list, err, c.want)
			}
		})
	}
}

// D-34: no daemon is there once it was killed, however it left its lock.
func TestKilledDaemonDoesNotServe(t *testing.T) {
	path, began := file(t), time.Now()
	s, err := schedule.Open(t.Context(), path, lapsed(began))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	add(t, s, draft(calendar.Interval, "1m"))
	d := start(t, path, "", began)
	d.until(t, "finished", 1)
	if served, err := s.Served(); !served || err != nil {
		t.Errorf("have %t, %v", served, err)
	}
	d.kill()
	if served, err := s.Served(); served || err != nil {
		t.Errorf("have %t, %v", served, err)
	}
	if err := s.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	locks, err := os.ReadDir(strings.TrimSuffix(path, ".sqlite") + ".serving")
	if err != nil || len(locks) != 1 {
		t.Errorf("%v, %v: want one lock, that of who lives", locks, err)
	}
}
