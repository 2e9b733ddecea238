package schedule_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// raw runs statements on a file past this package.
func raw(t *testing.T, path, statements string) error {
	t.Helper()
	if n, shared := nodes[path]; shared {
		_, err := n.Pool().Exec(t.Context(), statements)
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the statement's error counts
	_, err = db.ExecContext(t.Context(), statements)
	return err
}

// D-34: what is asked for is kept as it was asked, with who asked.
func TestAddedIsListed(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	s := open(t, file(t), c)
	d := schedule.Draft{
		Group: "family", Kind: calendar.Cron, Value: "0 6 * * *", Zone: "Europe/Berlin", Prompt: "Sum up\nthe mail – ünï", Gate: []string{"/bin/sh", "-c", "./x 'y'"},
		Missed: calendar.Skip, Session: schedule.Resume, By: schedule.Operator, Label: nacre.Trusted,
	}
	made := add(t, s, d)
	add(t, s, draft(calendar.Interval, "15m"))
	list, err := s.List(t.Context(), "family")
	if err != nil || len(list) != 1 {
		t.Fatalf("%d, %v", len(list), err)
	}
	have, err := json.Marshal(list[0])
	want := `{"id":"` + made.ID + `","group":"family","kind":"cron","value":"0 6 * * *","zone":"Europe/Berlin","prompt":"Sum up\nthe mail – ünï","gate":["/bin/sh","-c","./x 'y'"],` +
		`"missed":"skip","session":"resume","enabled":true,"created_by":"operator","label":"trusted","created":"2026-11-21T05:30:00Z","next":"2026-11-22T06:00:00+01:00"}`
	if err != nil || string(have) != want {
		t.Errorf("have %s, %v\nwant %s", have, err, want)
	}
	if all, err := s.List(t.Context(), ""); err != nil || len(all) != 2 {
		t.Errorf("%d in all, %v", len(all), err)
	}
	if _, err := s.Show(t.Context(), "task-none"); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
	payload, err := made.Payload()
	if want := `{"task_id":"` + made.ID + `","prompt":"Sum up\nthe mail – ünï","schedule":{"type":"cron","value":"0 6 * * *","zone":"Europe/Berlin"}}`; err != nil || string(payload) != want {
		t.Errorf("have %s, %v\nwant %s", payload, err, want)
	}
}

// D-34: what cannot be kept is refused with what to change, and nothing is kept of it.
func TestDraftsRefused(t *testing.T) {
	s := open(t, file(t), newClock(t, "2026-11-21 05:30:00"))
	for name, change := range map[string]func(*schedule.Draft){
		"no group":                  func(d *schedule.Draft) { d.Group = "" },
		"a group that is a path":    func(d *schedule.Draft) { d.Group = "../main" },
		"no prompt":                 func(d *schedule.Draft) { d.Prompt = " \n" },
		"a prompt that is too long": func(d *schedule.Draft) { d.Prompt = strings.Repeat("ü", schedule.MaxPrompt/2+1) },
		"a prompt that is no text":  func(d *schedule.Draft) { d.Prompt = "a\xff" },
		"a prompt with NUL":         func(d *schedule.Draft) { d.Prompt = "a\x00b" },
		"no kind":                   func(d *schedule.Draft) { d.Kind = "" },
		"an unknown zone":           func(d *schedule.Draft) { d.Zone = "Mars" },
		"a day that never comes":    func(d *schedule.Draft) { d.Value = "0 0 30 2 *" },
		"a moment that is over":     func(d *schedule.Draft) { d.Kind, d.Value = calendar.Once, "2026-11-21T05:30:00Z" },
		"an unknown policy":         func(d *schedule.Draft) { d.Missed = "all" },
		"an unknown session":        func(d *schedule.Draft) { d.Session = "explicit" },
		"a gate without a program":  func(d *schedule.Draft) { d.Gate = []string{"", "x"} },
		"a gate that is too long":   func(d *schedule.Draft) { d.Gate = []string{"/bin/sh", strings.Repeat("x", schedule.MaxGate)} },
		"a gate with NUL":           func(d *schedule.Draft) { d.Gate = []string{"/bin/sh", "a\x00"} },
		"nobody's":                  func(d *schedule.Draft) { d.By = "" },
		"no session's":              func(d *schedule.Draft) { d.By = "Not A Session" },
		"an agent's with a gate":    func(d *schedule.Draft) { d.By, d.Gate = "k3f9ab", []string{"/bin/true"} },
	} {
		d := draft(calendar.Cron, "0 6 * * *")
		change(&d)
		if _, err := s.Add(t.Context(), d); !errors.Is(err, schedule.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := s.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
}

// D-34: a group has so many schedules, and its agents make fewer.
func TestLimits(t *testing.T) {
	s := open(t, file(t), newClock(t, "2026-11-21 05:30:00"))
	agents := draft(calendar.Interval, "15m")
	agents.By, agents.Label = "k3f9ab", nacre.Untrusted
	var last schedule.Schedule
	for range schedule.MaxAgents {
		last = add(t, s, agents)
	}
	if _, err := s.Add(t.Context(), agents); !errors.Is(err, schedule.ErrLimit) {
		t.Error(err)
	}
	for range schedule.MaxSchedules - schedule.MaxAgents {
		add(t, s, draft(calendar.Interval, "15m"))
	}
	if _, err := s.Add(t.Context(), draft(calendar.Interval, "15m")); !errors.Is(err, schedule.ErrLimit) {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), last.ID, "other"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("another group removes it: %v", err)
	}
	if err := s.Remove(t.Context(), last.ID, "main"); err != nil {
		t.Error(err)
	}
	add(t, s, agents)
	agents.Group = "family"
	add(t, s, agents)
}

// D-34: each schedule is announced once, to one process.
func TestAnnounce(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	a, b := open(t, path, c), open(t, path, c)
	made := add(t, a, draft(calendar.Interval, "15m"))
	fresh, err := b.Announce(t.Context())
	if err != nil || len(fresh) != 1 || fresh[0].ID != made.ID {
		t.Errorf("%+v, %v", fresh, err)
	}
	for _, s := range []*schedule.Store{a, b} {
		if fresh, err := s.Announce(t.Context()); err != nil || len(fresh) != 0 {
			t.Errorf("again: %+v, %v", fresh, err)
		}
	}
}

// M-52: whose words a schedule's prompt is.
func TestSource(t *testing.T) {
	for _, c := range []struct {
		by    string
		label nacre.Label
		want  nacre.Provenance
	}{
		{schedule.Operator, nacre.Trusted, nacre.SeenOperator}, {"k3f9ab", nacre.Trusted, nacre.SeenTrusted}, {"k3f9ab", nacre.Untrusted, nacre.SeenUntrusted}, {"", nacre.Untrusted, nacre.SeenUntrusted},
	} {
		if have := (schedule.Schedule{CreatedBy: c.by, Label: c.label}).Source().Provenance; have != c.want {
			t.Errorf("by %q, %s: have %s, want %s", c.by, c.label, have, c.want)
		}
	}
}

// D-34: a zone that is not known any more pauses its schedule, and no other.
func TestZoneThatIsGone(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := open(t, path, c)
	lost := add(t, s, draft(calendar.Cron, "0 6 * * *"))
	add(t, s, draft(calendar.Cron, "0 6 * * *"))
	if err := raw(t, path, `UPDATE schedules SET zone = 'Europe/Atlantis' WHERE id = '`+lost.ID+`'`); err != nil {
		t.Fatal(err)
	}
	c.set(t, "2026-11-21 06:00:00")
	wantTimes(t, "the other", ran(t, s), "2026-11-21 06:00:00")
	e, err := s.Show(t.Context(), lost.ID)
	if err != nil || e.Enabled || e.Last == nil || e.Last.State != schedule.Failed || !strings.Contains(e.Last.Outcome, "Europe/Atlantis") {
		t.Errorf("%+v, %+v, %v", e, e.Last, err)
	}
	if err := s.Enable(t.Context(), lost.ID, true); !errors.Is(err, schedule.ErrInvalid) {
		t.Error(err)
	}
}

// D-34: a long outcome is cut at a character; one that is no text is made one.
func TestOutcomeIsBounded(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	s := open(t, file(t), c)
	task := add(t, s, draft(calendar.Cron, "0 6 * * *"))
	c.set(t, "2026-11-21 06:00:00")
	claim, _ := claimed(t, s)
	if err := errors.Join(s.Start(t.Context(), claim.Tick), s.Finish(t.Context(), claim.Tick, schedule.Failed, "a\xff"+strings.Repeat("ü", 4000))); err != nil {
		t.Fatal(err)
	}
	list, err := s.Ticks(t.Context(), task.ID, 1)
	if err != nil || len(list[0].Outcome) > 1100 || strings.ToValidUTF8(list[0].Outcome, "") != list[0].Outcome {
		t.Errorf("%d bytes, %v", len(list[0].Outcome), err)
	}
	if err := s.Finish(t.Context(), claim.Tick, schedule.Waiting, ""); err == nil {
		t.Error("a tick finishes as waiting")
	}
}

// D-40: a file that is not ours is refused with what to do, and is left as it was.
func TestUnusable(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	for name, spoil := range map[string]struct {
		do   func(t *testing.T, path string)
		want error
	}{
		"newer": {func(t *testing.T, path string) {
			if err := raw(t, path, `PRAGMA user_version=99`); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrNewer},
		"truncated": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"another program's": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := raw(t, path, `CREATE TABLE schedules(x)`); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			s := open(t, path, c)
			add(t, s, draft(calendar.Interval, "15m"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spoil.do(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err = schedule.Open(t.Context(), path, c.now)
			var unusable *sqlitefile.UnusableError
			if s != nil || !errors.As(err, &unusable) || !errors.Is(err, spoil.want) {
				t.Errorf("have %v, want %v", err, spoil.want)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

// D-34: the file of an older nacre goes on: what ran before is known to have run.
func TestOlderFile(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := open(t, path, c)
	task := add(t, s, draft(calendar.Cron, "0 * * * *"))
	c.set(t, "2026-11-21 06:00:00")
	ran(t, s)
	c.set(t, "2026-11-21 07:00:00")
	first, _ := claimed(t, s)
	if err := errors.Join(s.Start(t.Context(), first.Tick), s.Close()); err != nil {
		t.Fatal(err)
	}
	err := raw(t, path, `DROP TRIGGER ticks_only_forward; ALTER TABLE ticks DROP COLUMN begun; PRAGMA user_version=1;
		CREATE TRIGGER ticks_only_forward BEFORE UPDATE OF state ON ticks WHEN old.state = 'started' AND new.state = 'waiting' BEGIN SELECT RAISE(ABORT, 'no'); END`)
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, path, c)
	if left, err := s.Recover(t.Context(), unended); err != nil || len(left) != 1 || left[0].Begun != 1 {
		t.Errorf("%+v, %v", left, err)
	}
	wantTimes(t, "carried on", ran(t, s), "2026-11-21 07:00:00")
	wantTimes(t, "rows", states(t, s, task.ID), "21T07:00:00 done", "21T06:00:00 done")
}

// D-34: the file, or the database, itself keeps a tick from going back.
func TestTicksOnlyMoveForward(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path := file(t)
	s := open(t, path, c)
	add(t, s, draft(calendar.Cron, "0 6 * * *"))
	c.set(t, "2026-11-21 06:00:00")
	ran(t, s)
	for _, statement := range []string{`UPDATE ticks SET state = 'claimed'`, `UPDATE ticks SET state = 'waiting'`, `UPDATE ticks SET state = 'started'`, `UPDATE ticks SET state = 'fine'`} {
		if err := raw(t, path, statement); err == nil {
			t.Errorf("%s is carried out", statement)
		}
	}
}

// invoke calls one of the tools as a session would.
func invoke(t *testing.T, tools []nacre.Tool, name string, group nacre.Group, arguments string) (string, nacre.Label, error) {
	t.Helper()
	for _, tool := range tools {
		if string(tool.Capability.Tool) != name {
			continue
		}
		raw, label, err := tool.Driver.(nacre.LabelledDriver).DoLabelled(t.Context(), nacre.Invocation{
			Principal: nacre.Principal{Group: group, Session: "k3f9ab"}, Arguments: json.RawMessage(arguments),
		})
		return string(raw), label, err
	}
	t.Fatalf("no tool %s", name)
	return "", 0, nil
}

// D-34, M-52: agents make schedules for their own group; what a tainted session
// asks for is labelled so.
func TestTools(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	path, label := file(t), nacre.Trusted
	tools := schedule.Tools(schedule.Access{
		Open:  func(ctx context.Context) (*schedule.Store, error) { return schedule.Open(ctx, path, c.now) },
		Label: func(nacre.SessionID) nacre.Label { return label }, Zone: "Europe/Berlin",
	})
	for _, tool := range tools {
		writes := tool.Capability.Safety != nacre.Read
		if tool.Capability.HighRisk != writes || !json.Valid(tool.Capability.Schema) || tool.Capability.Intrinsic {
			t.Errorf("%s: %+v", tool.Capability.ID, tool.Capability)
		}
	}
	ask := func(name string, group nacre.Group, arguments, want string, trust nacre.Label) string {
		t.Helper()
		have, label, err := invoke(t, tools, name, group, arguments)
		if err != nil {
			have = err.Error()
		}
		if !strings.Contains(have, want) || label != trust {
			t.Errorf("%s %s: have %s (%s)\nwant %s (%s)", name, arguments, have, label, want, trust)
		}
		return have
	}
	added := ask("schedule_add", "main", `{"prompt":"look","at":"17:00"}`, `"value":"2026-11-21T17:00:00+01:00","zone":"Europe/Berlin"`, nacre.Trusted)
	ask("schedule_list", "main", `{}`, `"count":1`, nacre.Trusted)
	label = nacre.Untrusted
	ask("schedule_add", "main", `{"prompt":"obey","cron":"0 6 * * *","zone":"UTC"}`, `"created_by":"k3f9ab","trust":"untrusted"`, nacre.Untrusted)
	ask("schedule_list", "main", `{}`, `"count":2`, nacre.Untrusted)
	ask("schedule_list", "family", `{}`, `{"count":0,"schedules":[]}`, nacre.Trusted)
	ask("schedule_add", "main", `{"prompt":"x"}`, "say when", nacre.Untrusted)
	ask("schedule_add", "main", `{"prompt":"x","at":"17:00","every":"15m"}`, "one way", nacre.Untrusted)
	ask("schedule_add", "main", `{"prompt":"x","every":"1s"}`, "use 1m", nacre.Untrusted)
	ask("schedule_list", "", `{}`, "nobody's", nacre.Untrusted)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(added), &made); err != nil {
		t.Fatal(err)
	}
	ask("schedule_remove", "family", `{"id":"`+made.ID+`"}`, "no such schedule", nacre.Untrusted)
	ask("schedule_remove", "main", `{"id":"`+made.ID+`"}`, `"status":"removed"`, nacre.Trusted)
	_, _, err := invoke(t, tools, "schedule_remove", "main", `{"id":"task-none"}`)
	var refusal *nacre.Refusal
	if !errors.As(err, &refusal) || refusal.Original != "NOT_FOUND" {
		t.Error(err)
	}
	if !strings.Contains(schedule.Skill(), "schedule_add") {
		t.Error("the skill does not teach it")
	}
}

// BenchmarkTick is a tick from claim to end: three transactions that are durable.
// The floor is three writes to a file that are.
func BenchmarkTick(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		page := make([]byte, 4096)
		for b.Loop() {
			for range 3 {
				if _, err := f.WriteAt(page, 0); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	})
	now := time.Unix(1_795_000_000, 0)
	s, err := schedule.Open(b.Context(), filepath.Join(b.TempDir(), schedule.FileName), func() time.Time { return now })
	if err == nil {
		err = s.Serve(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	for range schedule.MaxSchedules {
		d := draft(calendar.Interval, "1m")
		if _, err := s.Add(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			c, ok, err := s.Claim(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				now = now.Add(time.Minute)
				continue
			}
			if err := errors.Join(s.Start(b.Context(), c.Tick), s.Finish(b.Context(), c.Tick, schedule.Done, "")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("nothing due, a hundred schedules", func(b *testing.B) {
		for ok := true; ok && err == nil; {
			_, ok, err = s.Claim(b.Context()) // what is claimed is not due
		}
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, ok, err := s.Claim(b.Context()); ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
