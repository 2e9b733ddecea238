package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/calendar"
)

// ready tells that a schedule has something to claim: it is due, a tick of it waits, or the clock
// went back behind what was dealt with. None of its ticks may be claimed or started.
const ready = `(enabled AND (due <= ?1 OR handled > ?1) OR EXISTS (SELECT 1 FROM ticks WHERE schedule = id AND state = 'waiting'))
	AND NOT EXISTS (SELECT 1 FROM ticks WHERE schedule = id AND state IN ('claimed', 'started'))`

// Claim gives a tick that is due to this process and to no other, which then calls
// [Store.Start] or [Store.Release]. Without one it reports false. [Store.Serve]
// comes first.
func (s *Store) Claim(ctx context.Context) (Claim, bool, error) {
	if s.self == "" {
		return Claim{}, false, errors.New("schedules: Claim before Serve")
	}
	var any bool
	err := s.at.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM schedules WHERE `+ready+`)`, s.now().Unix()).Scan(&any)
	if err != nil || !any {
		return Claim{}, false, s.at.classified(err)
	}
	var claim Claim
	var claimed bool
	err = s.write(ctx, func(w writing) error {
		list, err := query(ctx, w.session, ready+` ORDER BY due, id`, w.now.Unix())
		for _, schedule := range list {
			if claim, claimed, err = w.claimOf(ctx, schedule); err != nil || claimed {
				return err
			}
		}
		return err
	})
	return claim, claimed && err == nil, err
}

// writing is one transaction of the process self: all that it notes happened now.
type writing struct {
	session
	self string
	now  time.Time
}

func (s *Store) write(ctx context.Context, do func(writing) error) error {
	return s.at.write(ctx, func(tx session) error {
		return do(writing{tx, s.self, s.now().UTC().Truncate(time.Second)})
	})
}

// claimOf deals with all that is due of one schedule, and claims one tick of it at most.
func (w writing) claimOf(ctx context.Context, task Schedule) (Claim, bool, error) {
	waiting, err := ticks(ctx, w.session, `schedule = ? AND state = 'waiting' ORDER BY extra, at`, task.ID)
	if err != nil {
		return Claim{}, false, err
	}
	if task.Enabled {
		claim, claimed, err := w.claimDue(ctx, task, waiting)
		if claimed || err != nil {
			return claim, claimed, err
		}
	}
	for _, t := range waiting {
		gone, err := w.forgo(ctx, task, t)
		if err != nil {
			return Claim{}, false, err
		}
		if gone {
			continue
		}
		t.State = Claimed
		_, err = w.ExecContext(ctx, `UPDATE ticks SET state = 'claimed', holder = ?, changed = ? WHERE schedule = ? AND at = ? AND extra = ? AND state = 'waiting'`,
			w.self, w.now.Unix(), t.Schedule, t.At.Unix(), t.Extra)
		return Claim{t, task}, err == nil, err
	}
	return Claim{}, false, nil
}

// forgo ends a tick that waits and that nobody wants any more.
func (w writing) forgo(ctx context.Context, task Schedule, t Tick) (gone bool, err error) {
	switch {
	case t.Begun > 0 && !task.Enabled:
		return true, w.move(ctx, t, Interrupted, t.Outcome+": its schedule was paused")
	case t.Begun == 0 && !t.Extra && task.Missed == calendar.Skip && w.now.Sub(t.At) > Grace:
		return true, w.move(ctx, t, Skipped, "missed: nobody was there for it")
	}
	return false, nil
}

// claimDue deals with what the calendar says is due.
func (w writing) claimDue(ctx context.Context, task Schedule, waiting []Tick) (Claim, bool, error) {
	spec, err := task.spec()
	if err != nil {
		return Claim{}, false, w.giveUp(ctx, task, err)
	}
	handled := min(task.reckoning.handled, max(w.now.Unix(), task.reckoning.forgotten))
	due := spec.Due(time.Unix(handled, 0), w.now, task.Missed, Grace)
	t := Tick{Schedule: task.ID, At: due.Run, State: Claimed, Changed: w.now}
	if t.At.IsZero() {
		t.At, t.State, t.Outcome = due.Skip, Skipped, "missed: nobody was there for it"
	}
	if t.At.IsZero() { // the clock went back, or the zone's rules changed
		return Claim{}, false, handledTo(ctx, w.session, task.ID, handled, moment(spec.Next(time.Unix(handled, 0))))
	}
	if !due.Missed.IsZero() {
		t.Outcome = "stands for all since " + due.Missed.Format(time.RFC3339)
	}
	t.Session = SessionID(t.Schedule, t.At, false)
	isNew, err := put(ctx, w.session, t, w.self)
	if err != nil {
		return Claim{}, false, err
	}
	for _, old := range waiting {
		if !old.Extra && isNew && t.State == Claimed {
			if err := w.giveWay(ctx, old); err != nil {
				return Claim{}, false, err
			}
		}
	}
	err = errors.Join(handledTo(ctx, w.session, task.ID, t.At.Unix(), moment(due.Next, true)), prune(ctx, w.session, task.ID))
	return Claim{t, task}, isNew && t.State == Claimed && err == nil, err
}

// giveWay ends a tick that waits when a later one of its schedule runs.
func (w writing) giveWay(ctx context.Context, t Tick) error {
	if t.Begun > 0 {
		return w.move(ctx, t, Interrupted, t.Outcome+": a later tick took its place")
	}
	return w.move(ctx, t, Skipped, "missed: a later tick took its place")
}

// giveUp pauses a schedule whose times this machine cannot tell any more.
func (w writing) giveUp(ctx context.Context, task Schedule, why error) error {
	t := Tick{Schedule: task.ID, At: w.now, State: Failed, Outcome: "paused: " + why.Error(), Session: SessionID(task.ID, w.now, true), Extra: true, Changed: w.now}
	_, err := put(ctx, w.session, t, "")
	if err == nil {
		_, err = w.ExecContext(ctx, `UPDATE schedules SET enabled = false WHERE id = ?`, task.ID)
	}
	return err
}

func handledTo(ctx context.Context, tx session, id string, handled, due int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE schedules SET handled = ?, due = ? WHERE id = ?`, handled, orNull(due), id)
	return err
}

// prune forgets the oldest ticks that are over. How far it went is kept, so that
// none of them can come again.
func prune(ctx context.Context, tx session, id string) error {
	const old = `schedule = ?1 AND state NOT IN ('waiting', 'claimed', 'started') AND at < (SELECT at FROM ticks WHERE schedule = ?1 ORDER BY at DESC, extra DESC LIMIT 1 OFFSET ?2)`
	_, err := tx.ExecContext(ctx, `WITH gone AS (SELECT coalesce(max(at), 0) AS last FROM ticks WHERE NOT extra AND `+old+`)
		UPDATE schedules SET forgotten = (SELECT last FROM gone) WHERE id = ?1 AND forgotten < (SELECT last FROM gone)`, id, keptTicks-1)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM ticks WHERE `+old, id, keptTicks-1)
	}
	return err
}

// Start moves a claimed tick to started. Whoever gets no error from it, and nobody
// else, starts the session; ErrLost says that this is another's now.
func (s *Store) Start(ctx context.Context, t Tick) error {
	return s.step(ctx, t, Claimed, Started, "")
}

// Release gives a claimed tick back, for any process to claim.
func (s *Store) Release(ctx context.Context, t Tick) error {
	return s.step(ctx, t, Claimed, Waiting, "")
}

// Finish says what came of a started tick: Done, Failed or NothingToDo.
func (s *Store) Finish(ctx context.Context, t Tick, state State, outcome string) error {
	if !finishes(state) {
		return fmt.Errorf("schedules: a tick does not finish as %q", state)
	}
	return s.step(ctx, t, Started, state, outcome)
}

// finishes tells the states in which a started tick comes to its own end.
func finishes(state State) bool { return state == Done || state == Failed || state == NothingToDo }

// Interrupt says that a started tick did not come to its end, and why. Where its
// schedule runs what it missed, any process may carry it on, once.
func (s *Store) Interrupt(ctx context.Context, t Tick, why string) error {
	return s.write(ctx, func(w writing) error {
		held, err := ticks(ctx, w.session, `schedule = ? AND at = ? AND extra = ? AND state = 'started' AND holder = ?`, t.Schedule, t.At.Unix(), t.Extra, w.self)
		if err == nil && len(held) == 0 {
			err = lost(t)
		}
		if err != nil {
			return err
		}
		_, err = w.interrupt(ctx, held[0], why)
		return err
	})
}

// interrupt deals with a started tick that nobody carries on now, by the policy for
// missed ticks: it is over, or waits to be started the second and last time.
func (w writing) interrupt(ctx context.Context, t Tick, why string) (Tick, error) {
	task, err := one(ctx, w.session, t.Schedule)
	if err != nil {
		return t, err
	}
	t.State, t.Outcome = Interrupted, "interrupted: "+why
	if task.Missed == calendar.RunOnce && t.Begun < maxBegun {
		t.State = Waiting
	}
	return t, w.move(ctx, t, t.State, t.Outcome)
}

// step moves a tick that this process holds.
func (s *Store) step(ctx context.Context, t Tick, from, to State, outcome string) error {
	holder := s.self
	if to == Waiting {
		holder = ""
	}
	return s.at.write(ctx, func(tx session) error {
		result, err := tx.ExecContext(ctx, `UPDATE ticks SET state = ?1, holder = ?, outcome = CASE WHEN ?3 = '' THEN outcome ELSE ?3 END, changed = ?, begun = begun + CASE WHEN ?1 = 'started' THEN 1 ELSE 0 END WHERE schedule = ? AND at = ? AND extra = ? AND state = ? AND holder = ?`,
			to, holder, cut(outcome), s.now().Unix(), t.Schedule, t.At.Unix(), t.Extra, from, s.self)
		return touched(result, err, lost(t))
	})
}

func lost(t Tick) error {
	return fmt.Errorf("%w: %s at %s", ErrLost, t.Schedule, t.At.Format(time.RFC3339))
}

// move moves a tick that nobody holds.
func (w writing) move(ctx context.Context, t Tick, to State, outcome string) error {
	_, err := w.ExecContext(ctx, `UPDATE ticks SET state = ?, holder = '', outcome = ?, changed = ? WHERE schedule = ? AND at = ? AND extra = ?`,
		to, cut(outcome), w.now.Unix(), t.Schedule, t.At.Unix(), t.Extra)
	return err
}
