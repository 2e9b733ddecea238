package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Entry is a schedule as it is listed.
type Entry struct {
	Schedule
	// Next is the tick to come; nil for none, as when it is paused or over.
	Next *time.Time `json:"next,omitempty"`
	// Last is the latest tick that was dealt with; nil for none.
	Last *Tick `json:"last,omitempty"`
}

// List gives the schedules of a group, or of all groups where it is empty, the
// oldest first.
func (s *Store) List(ctx context.Context, group nacre.Group) ([]Entry, error) {
	return s.entries(ctx, `?1 = '' OR group_name = ?1 ORDER BY group_name, created, id`, group)
}

// Show is one schedule.
func (s *Store) Show(ctx context.Context, id string) (Entry, error) {
	list, err := s.entries(ctx, `id = ?`, id)
	if err != nil {
		return Entry{}, err
	}
	if len(list) == 0 {
		return Entry{}, notFound(id)
	}
	return list[0], nil
}

func (s *Store) entries(ctx context.Context, where string, args ...any) ([]Entry, error) {
	found, err := query(ctx, s.at.reader(), where, args...)
	if err != nil {
		return nil, s.at.classified(err)
	}
	list := make([]Entry, 0, len(found))
	for _, schedule := range found {
		e := Entry{Schedule: schedule, Next: schedule.next()}
		ticks, err := s.Ticks(ctx, schedule.ID, 1)
		if err != nil {
			return nil, err
		}
		if len(ticks) > 0 {
			e.Last = &ticks[0]
		}
		list = append(list, e)
	}
	return list, nil
}

// next is the tick to come; nil for none.
func (s Schedule) next() *time.Time {
	if !s.Enabled || s.reckoning.due == 0 {
		return nil
	}
	next := s.in(s.reckoning.due)
	return &next
}

// in is a moment in the schedule's zone, or in UTC where that is not known here.
func (s Schedule) in(moment int64) time.Time {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		zone = time.UTC
	}
	return time.Unix(moment, 0).In(zone)
}

// Ticks are a schedule's, the latest first, at most limit.
func (s *Store) Ticks(ctx context.Context, id string, limit int) ([]Tick, error) {
	list, err := ticks(ctx, s.at.reader(), `schedule = ? ORDER BY at DESC, extra DESC LIMIT ?`, id, limit)
	return list, s.at.classified(err)
}

// OpenSessions are those of all ticks that are not over: each is begun, or carried on.
func (s *Store) OpenSessions(ctx context.Context) (map[nacre.SessionID]bool, error) {
	list, err := ticks(ctx, s.at.reader(), `state IN ('waiting', 'claimed', 'started')`)
	sessions := map[nacre.SessionID]bool{}
	for _, t := range list {
		sessions[t.Session] = true
	}
	return sessions, s.at.classified(err)
}

func one(ctx context.Context, q session, id string) (Schedule, error) {
	list, err := query(ctx, q, `id = ?`, id)
	if err != nil {
		return Schedule{}, err
	}
	if len(list) == 0 {
		return Schedule{}, notFound(id)
	}
	return list[0], nil
}

func query(ctx context.Context, q session, where string, args ...any) (list []Schedule, err error) {
	rows, err := q.QueryContext(ctx, `SELECT id, group_name, kind, value, zone, prompt, gate, missed, session, enabled, created_by, label, created, handled,
		coalesce(due, 0), forgotten FROM schedules WHERE `+where, args...) //nolint:gosec // the conditions are this package's own
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s Schedule
		var gate, label string
		var created int64
		if err := rows.Scan(&s.ID, &s.Group, &s.Kind, &s.Value, &s.Zone, &s.Prompt, &gate, &s.Missed, &s.Session, &s.Enabled, &s.CreatedBy, &label, &created,
			&s.reckoning.handled, &s.reckoning.due, &s.reckoning.forgotten); err != nil {
			return nil, err
		}
		if err := errors.Join(json.Unmarshal([]byte(gate), &s.Gate), s.Label.UnmarshalText([]byte(label))); err != nil {
			return nil, fmt.Errorf("schedule %s: %w (%w)", s.ID, sqlitefile.ErrDamaged, err)
		}
		s.Created = time.Unix(created, 0).UTC()
		list = append(list, s)
	}
	return list, rows.Err()
}

func ticks(ctx context.Context, q session, where string, args ...any) (list []Tick, err error) {
	rows, err := q.QueryContext(ctx, `SELECT schedule, at, extra, state, begun, session, outcome, changed FROM ticks WHERE `+where, args...) //nolint:gosec // the conditions are this package's own
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var t Tick
		var at, changed int64
		if err := rows.Scan(&t.Schedule, &at, &t.Extra, &t.State, &t.Begun, &t.Session, &t.Outcome, &changed); err != nil {
			return nil, err
		}
		t.At, t.Changed = time.Unix(at, 0).UTC(), time.Unix(changed, 0).UTC()
		list = append(list, t)
	}
	return list, rows.Err()
}
