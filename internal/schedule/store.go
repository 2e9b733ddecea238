package schedule

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Store is an installation's schedules. It is safe for concurrent use, also by
// several processes on one file or one database.
type Store struct {
	at      place
	serving servers
	now     func() time.Time
	// self is this process among those that serve; "" where it does not.
	self string
}

// Open opens the schedules in a file, makes it where there is none, mode 0600,
// and brings an older one forward. now is the clock. Every error but the
// context's is a [*sqlitefile.UnusableError].
func Open(ctx context.Context, path string, now func() time.Time) (*Store, error) {
	file, err := sqlitefile.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	return &Store{at: inFile{file}, serving: &locks{folder: strings.TrimSuffix(path, ".sqlite") + ".serving"}, now: now}, nil
}

// Close ends the use of the schedules. What this process had claimed is free for others.
func (s *Store) Close() error { return errors.Join(s.serving.leave(), s.at.close()) }

// Serve makes this process one that claims ticks, until Close.
func (s *Store) Serve(ctx context.Context) error {
	id, err := s.serving.join(ctx)
	if err != nil {
		return err
	}
	s.self = id
	return s.refresh(ctx)
}

// Served tells whether a process serves the schedules.
func (s *Store) Served() (bool, error) { return s.serving.any() }

// Add makes a schedule. It is an ErrInvalid or ErrLimit that says what to change.
func (s *Store) Add(ctx context.Context, d Draft) (Schedule, error) {
	added, err := made(d, "task-"+strings.ToLower(rand.Text()[:10]), s.now())
	if err != nil {
		return Schedule{}, err
	}
	gate, err := json.Marshal(append([]string{}, added.Gate...))
	if err != nil {
		return Schedule{}, err
	}
	err = s.at.write(ctx, func(tx session) error {
		if err := room(ctx, tx, added); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO schedules(id, group_name, kind, value, zone, prompt, gate, missed, session, enabled, created_by, label, created, handled, due)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, true, ?, ?, ?, ?, ?)`, added.ID, added.Group, added.Kind, added.Value, added.Zone, added.Prompt, string(gate),
			added.Missed, added.Session, added.CreatedBy, added.Label.String(), added.Created.Unix(), added.reckoning.handled, added.reckoning.due)
		return err
	})
	return added, err
}

// room refuses one schedule too many.
func room(ctx context.Context, tx session, s Schedule) error {
	var all, agents int
	err := tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE created_by <> ?) FROM schedules WHERE group_name = ?`, Operator, s.Group).Scan(&all, &agents)
	switch {
	case err != nil:
		return err
	case all >= MaxSchedules:
		return fmt.Errorf("%w: group %s has %d; remove one first", ErrLimit, s.Group, all)
	case s.ByAgent() && agents >= MaxAgents:
		return fmt.Errorf("%w: agents made %d for group %s; remove one first", ErrLimit, agents, s.Group)
	}
	return nil
}

// Remove removes a schedule with its ticks. A session that one of them started
// goes on. Where a group is given, another group's schedule is not found.
func (s *Store) Remove(ctx context.Context, id string, group nacre.Group) error {
	return s.at.write(ctx, func(tx session) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM schedules WHERE id = ?1 AND (?2 = '' OR group_name = ?2)`, id, group)
		return touched(result, err, notFound(id))
	})
}

// Enable pauses a schedule, or lets it go on. What would have been due meanwhile
// was not missed: nobody wanted it.
func (s *Store) Enable(ctx context.Context, id string, on bool) error {
	return s.at.write(ctx, func(tx session) error {
		found, err := one(ctx, tx, id)
		if err != nil || found.Enabled == on {
			return err
		}
		if on {
			spec, err := found.spec()
			if err != nil {
				return invalid("%w", err)
			}
			found.reckoning.handled = max(found.reckoning.handled, s.now().Unix())
			found.reckoning.due = moment(spec.Next(time.Unix(found.reckoning.handled, 0)))
		}
		_, err = tx.ExecContext(ctx, `UPDATE schedules SET enabled = ?, handled = ?, due = ? WHERE id = ?`, on, found.reckoning.handled, orNull(found.reckoning.due), id)
		return err
	})
}

// RunNow asks for a tick beside those of the calendar. A process that serves the
// file claims it. One that was asked for and waits still is not asked for again.
func (s *Store) RunNow(ctx context.Context, id string) (Tick, error) {
	at := s.now().UTC().Truncate(time.Second)
	t := Tick{Schedule: id, At: at, Extra: true, State: Waiting, Session: SessionID(id, at, true), Changed: at}
	err := s.at.write(ctx, func(tx session) error {
		if _, err := one(ctx, tx, id); err != nil {
			return err
		}
		waits, err := ticks(ctx, tx, `schedule = ? AND extra AND state = 'waiting'`, id)
		if err != nil {
			return err
		}
		if len(waits) > 0 {
			t = waits[0]
			return nil
		}
		_, err = put(ctx, tx, t, "")
		return err
	})
	return t, err
}

// Announce gives the schedules that were not announced yet, each to one caller once.
func (s *Store) Announce(ctx context.Context) ([]Schedule, error) {
	var any bool
	if err := s.at.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schedules WHERE NOT announced)`).Scan(&any); err != nil || !any {
		return nil, s.at.classified(err)
	}
	var fresh []Schedule
	err := s.at.write(ctx, func(tx session) error {
		var err error
		if fresh, err = query(ctx, tx, `NOT announced ORDER BY created, id`); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE schedules SET announced = true WHERE NOT announced`)
		return err
	})
	return fresh, err
}

// put adds a tick, and tells whether it was not there already.
func put(ctx context.Context, tx session, t Tick, holder string) (bool, error) {
	result, err := tx.ExecContext(ctx, `INSERT INTO ticks(schedule, at, extra, state, holder, session, outcome, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, t.Schedule, t.At.Unix(), t.Extra, t.State, holder, t.Session, cut(t.Outcome), t.Changed.Unix())
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// touched turns a statement that changed nothing into an error.
func touched(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return none
}

func notFound(id string) error {
	return fmt.Errorf("%w: %.80q; nacre schedule list shows them", ErrNotFound, id)
}

func orNull(at int64) any {
	if at == 0 {
		return nil
	}
	return at
}

// cut keeps the beginning of a text, to a whole character.
func cut(text string) string {
	if len(text) <= maxOutcome {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:maxOutcome], "") + "…"
}
