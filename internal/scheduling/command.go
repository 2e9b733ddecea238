package scheduling

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/schedule"
)

// shell runs a gate's text, inside the sandbox.
const shell = "/bin/sh"

// NewSchedule is a task for later, as a person asks for it. One of Cron, Every and
// At says when.
type NewSchedule struct {
	Group nacre.Group
	// Cron has five fields. Every is a duration such as "15m". At is a moment after RFC 3339, or
	// "17:00" for the next time it is five.
	Cron, Every, At string
	// Zone is an IANA name; empty means the machine's.
	Zone   string
	Prompt string
	// Gate is a shell command, run sealed: 0 wakes the agent, 1 is nothing to do.
	Gate string
	// Missed is "run-once", the default, or "skip"; Session "fresh", the default, or "resume".
	Missed, Session string
}

// ScheduleStatus is a schedule as a person sees it.
type ScheduleStatus struct {
	ID    string      `json:"id"`
	Group nacre.Group `json:"group"`
	// Kind is "cron", "interval" or "once", Value the expression, interval or moment.
	Kind    string      `json:"kind"`
	Value   string      `json:"value"`
	Zone    string      `json:"zone"`
	Prompt  string      `json:"prompt"`
	Gate    []string    `json:"gate,omitempty"`
	Missed  string      `json:"missed"`
	Session string      `json:"session"`
	Enabled bool        `json:"enabled"`
	By      string      `json:"created_by"`
	Label   nacre.Label `json:"label"`
	Created time.Time   `json:"created"`
	Next    *time.Time  `json:"next,omitempty"`
	Last    *TickStatus `json:"last,omitempty"`
}

// TickStatus is one time at which a schedule was due.
type TickStatus struct {
	At time.Time `json:"at"`
	// Extra marks a tick that a person asked for.
	Extra bool `json:"extra,omitempty"`
	// State is waiting, claimed, started, done, failed, nothing-to-do, skipped or interrupted.
	State   string          `json:"state"`
	Session nacre.SessionID `json:"session"`
	Outcome string          `json:"outcome,omitempty"`
	Changed time.Time       `json:"changed"`
}

// Tools let a session's agent make schedules for its group. label is whom a session has listened to.
func Tools(inst *installation.Installation, label func(nacre.SessionID) nacre.Label) []nacre.Tool {
	return schedule.Tools(schedule.Access{
		Open: func(ctx context.Context) (*schedule.Store, error) { return Schedules(ctx, inst) }, Zone: LocalZone(inst), Label: label,
	})
}

// withSchedules opens the schedules for one use.
func withSchedules(ctx context.Context, inst *installation.Installation, use func(*schedule.Store) error) error {
	store, err := Schedules(ctx, inst)
	if err != nil {
		return err
	}
	err = errors.Join(use(store), store.Close())
	if errors.Is(err, schedule.ErrInvalid) || errors.Is(err, schedule.ErrLimit) || errors.Is(err, schedule.ErrNotFound) {
		return &config.Error{Err: err}
	}
	return err
}

// AddSchedule makes a schedule on the operator's behalf.
func AddSchedule(ctx context.Context, inst *installation.Installation, n NewSchedule) (added ScheduleStatus, err error) {
	kind, value, err := schedule.When(n.Cron, n.Every, n.At)
	if err != nil {
		return added, &config.Error{Err: err}
	}
	group, err := inst.Group(n.Group)
	if err != nil {
		return added, err
	}
	draft := schedule.Draft{
		Group: group, Kind: kind, Value: value, Zone: n.Zone, Prompt: n.Prompt, Missed: calendar.Policy(n.Missed),
		Session: schedule.SessionPolicy(n.Session), By: schedule.Operator, Label: nacre.Trusted,
	}
	if draft.Zone == "" {
		draft.Zone = LocalZone(inst)
	}
	if n.Gate != "" {
		draft.Gate = []string{shell, "-c", n.Gate}
	}
	err = withSchedules(ctx, inst, func(store *schedule.Store) error {
		made, err := store.Add(ctx, draft)
		if err != nil {
			return err
		}
		entry, err := store.Show(ctx, made.ID)
		added = statusOf(entry)
		return err
	})
	return added, err
}

// SchedulesOf are those of a group, or of all groups where it is empty.
func SchedulesOf(ctx context.Context, inst *installation.Installation, group nacre.Group) ([]ScheduleStatus, error) {
	list := []ScheduleStatus{}
	err := withSchedules(ctx, inst, func(store *schedule.Store) error {
		entries, err := store.List(ctx, group)
		for _, e := range entries {
			list = append(list, statusOf(e))
		}
		return err
	})
	return list, err
}

// ScheduleNamed is one schedule with its latest ticks, the latest first.
func ScheduleNamed(ctx context.Context, inst *installation.Installation, id string, ticks int) (status ScheduleStatus, latest []TickStatus, err error) {
	latest = []TickStatus{}
	err = withSchedules(ctx, inst, func(store *schedule.Store) error {
		entry, err := store.Show(ctx, id)
		if err != nil {
			return err
		}
		status = statusOf(entry)
		list, err := store.Ticks(ctx, id, ticks)
		for _, t := range list {
			latest = append(latest, tickOf(t, entry.Zone))
		}
		return err
	})
	return status, latest, err
}

// RunSchedule asks the process that serves the schedules for one tick now. Where
// none does, it is a NotReady.
func RunSchedule(ctx context.Context, inst *installation.Installation, id string) (tick TickStatus, err error) {
	err = withSchedules(ctx, inst, func(store *schedule.Store) error {
		entry, err := store.Show(ctx, id)
		if err != nil {
			return err
		}
		served, err := store.Served()
		if err != nil {
			return err
		}
		if !served {
			return &installation.NotReady{What: "nothing serves the schedules", Next: "start `nacre serve`, then ask again"}
		}
		asked, err := store.RunNow(ctx, id)
		tick = tickOf(asked, entry.Zone)
		return err
	})
	return tick, err
}

// PauseSchedule pauses a schedule, and ResumeSchedule lets it go on.
func PauseSchedule(ctx context.Context, inst *installation.Installation, id string) error {
	return withSchedules(ctx, inst, func(store *schedule.Store) error { return store.Enable(ctx, id, false) })
}

// ResumeSchedule lets a paused schedule go on. What would have been due meanwhile
// is not made up for.
func ResumeSchedule(ctx context.Context, inst *installation.Installation, id string) error {
	return withSchedules(ctx, inst, func(store *schedule.Store) error { return store.Enable(ctx, id, true) })
}

// RemoveSchedule removes a schedule with what is known of its ticks.
func RemoveSchedule(ctx context.Context, inst *installation.Installation, id string) error {
	return withSchedules(ctx, inst, func(store *schedule.Store) error { return store.Remove(ctx, id, "") })
}

func statusOf(e schedule.Entry) ScheduleStatus {
	s := ScheduleStatus{
		ID: e.ID, Group: e.Group, Kind: string(e.Kind), Value: e.Value, Zone: e.Zone, Prompt: e.Prompt, Gate: e.Gate, Missed: string(e.Missed),
		Session: string(e.Session), Enabled: e.Enabled, By: e.CreatedBy, Label: e.Label, Created: e.Created, Next: e.Next,
	}
	if e.Last != nil {
		last := tickOf(*e.Last, e.Zone)
		s.Last = &last
	}
	return s
}

// tickOf tells of a tick in the zone of its schedule.
func tickOf(t schedule.Tick, zone string) TickStatus {
	if where, err := calendar.Zone(zone); err == nil {
		t.At, t.Changed = t.At.In(where), t.Changed.In(where)
	}
	return TickStatus{At: t.At, Extra: t.Extra, State: string(t.State), Session: t.Session, Outcome: t.Outcome, Changed: t.Changed}
}
