package model

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/database"
)

// oneSpends is the advisory lock of whoever sets money aside.
const oneSpends = 0x6e63737064

// Migrations are those of the tables in which machines account for what they spend together.
func Migrations() []string {
	return []string{`
CREATE TABLE nacre_spending (
    day        text COLLATE "C" NOT NULL,
    group_name text NOT NULL,
    spent      bigint NOT NULL DEFAULT 0,
    held       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (day, group_name)
)`, `
CREATE TABLE nacre_hold (
    id         text PRIMARY KEY,
    day        text NOT NULL,
    group_name text NOT NULL,
    micro_usd  bigint NOT NULL
)`}
}

// sharedBook is what all machines of an installation have spent, day by day, in their
// store. It holds what [Daybook] promises for processes between machines: money is set
// aside by one of them at a time, under the lease of a node.
type sharedBook struct{ store *database.Store }

// NewSharedDaybook is [NewDaybook] for an installation whose machines share a store. The
// machine whose clock is furthest says which day it is.
func NewSharedDaybook(store *database.Store, zone *time.Location, now func() time.Time) *Daybook {
	return &Daybook{zone: zone, now: now, shared: &sharedBook{store}}
}

func (s *sharedBook) pool(ctx context.Context) (*pgxpool.Pool, error) {
	return s.store.Room(ctx, "spending", Migrations)
}

func (s *sharedBook) reserve(ctx context.Context, b *Daybook, group nacre.Group, limits budget.DayLimits, decide func(budget.Room) (int64, error)) (made *hold, refused, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	pool, err := s.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = s.store.Write(ctx, pool, oneSpends, func(tx pgx.Tx) error {
		day, state, err := s.state(ctx, tx, b)
		if err != nil {
			return err
		}
		var amount int64
		if amount, refused = decide(budget.Narrowest(state.Rooms(group, limits, b.refill(day)))); refused != nil {
			return nil //nolint:nilerr // nothing was set aside, and refused says so
		}
		h := &hold{b, day, budget.Entry{ID: rand.Text(), Group: group, MicroUSD: min(amount, budget.MaxEntry)}}
		made = h
		return s.set(ctx, tx, h)
	})
	if err != nil {
		return nil, nil, err // what was decided was not written
	}
	return made, refused, nil
}

// set sets money aside, and forgets days that are long over.
func (*sharedBook) set(ctx context.Context, tx pgx.Tx, h *hold) error {
	_, err := tx.Exec(ctx, `INSERT INTO nacre_spending AS s (day, group_name, held) VALUES ($1, $2, $3)
		ON CONFLICT (day, group_name) DO UPDATE SET held = s.held + excluded.held`, h.day, string(h.entry.Group), h.entry.MicroUSD)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO nacre_hold VALUES ($1, $2, $3, $4)`, h.entry.ID, h.day, string(h.entry.Group), h.entry.MicroUSD); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `WITH old AS (DELETE FROM nacre_spending WHERE day < (SELECT day FROM (SELECT DISTINCT day FROM nacre_spending) d ORDER BY day DESC OFFSET $1 LIMIT 1))
		DELETE FROM nacre_hold WHERE day < (SELECT day FROM (SELECT DISTINCT day FROM nacre_spending) d ORDER BY day DESC OFFSET $1 LIMIT 1)`, keptDays-1)
	return err
}

// state is the day by the clock, or the last that was written if that is later, and what was
// spent and set aside on it.
func (*sharedBook) state(ctx context.Context, tx pgx.Tx, b *Daybook) (day string, state *budget.Day, err error) {
	day = b.now().In(b.zone).Format(dayForm)
	if err := tx.QueryRow(ctx, `SELECT greatest($1::text COLLATE "C", max(day)) FROM nacre_spending`, day).Scan(&day); err != nil {
		return "", nil, err
	}
	rows, err := tx.Query(ctx, `SELECT group_name, spent, held FROM nacre_spending WHERE day = $1`, day)
	if err != nil {
		return "", nil, err
	}
	state = new(budget.Day)
	var group string
	var spent, held int64
	_, err = pgx.ForEachRow(rows, []any{&group, &spent, &held}, func() error {
		call := budget.Entry{ID: "spent " + group, Group: nacre.Group(group), MicroUSD: spent}
		over := call
		over.Ended = true
		return errors.Join(state.Apply(call), state.Apply(over), state.Apply(budget.Entry{ID: "held " + group, Group: nacre.Group(group), MicroUSD: held}))
	})
	return day, state, err
}

// settle says what a call cost, whether or not this machine's lease lasts: it gives back.
func (s *sharedBook) settle(ctx context.Context, h *hold, cost int64) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	pool, err := s.pool(ctx)
	if err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, `WITH ended AS (DELETE FROM nacre_hold WHERE id = $1 RETURNING day, group_name, micro_usd)
		UPDATE nacre_spending s SET held = s.held - ended.micro_usd, spent = s.spent + $2 FROM ended WHERE s.day = ended.day AND s.group_name = ended.group_name`,
		h.entry.ID, min(max(cost, 0), budget.MaxEntry))
	if err == nil && tag.RowsAffected() != 1 {
		return fmt.Errorf("call %s was not begun, or has ended: the database was restored meanwhile", h.entry.ID)
	}
	return database.Classified(err)
}

func (s *sharedBook) rooms(b *Daybook, group nacre.Group, limits budget.DayLimits) (rooms []budget.Room, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	pool, err := s.pool(ctx)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		day, state, err := s.state(ctx, tx, b)
		if err == nil {
			rooms = state.Rooms(group, limits, b.refill(day))
		}
		return err
	})
	return rooms, database.Classified(err)
}
