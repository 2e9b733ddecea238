// Package shared keeps the revocations of all machines of an installation in its database. It
// is a room of its own, so that who embeds grants links no database.
package shared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/token"
)

const (
	// oneAtATime is the advisory lock of whoever writes revocations.
	oneAtATime = 0x6e63727673
	// asking bounds a question to the database, and writing a change.
	asking, writing = 5 * time.Second, 10 * time.Second
	// lastYear is the last that a revocation ends in; later is never.
	lastYear = 9999
)

// ErrAsked is a question that the store did not answer.
var ErrAsked = errors.New("the revocations of the [store] cannot be read, so everything counts as revoked")

// Migrations are those of the tables that nodes share. A principal is any UTF-8, which text
// of PostgreSQL is not.
func Migrations() []string {
	return []string{`
CREATE TABLE nacre_revocation (
    id        text NOT NULL,
    principal bytea NOT NULL,
    until     timestamptz,
    PRIMARY KEY (id, principal),
    CHECK ((id = '') <> (principal = ''))
)`, `
CREATE TABLE nacre_revocation_sweep (one boolean PRIMARY KEY DEFAULT true CHECK (one), at timestamptz NOT NULL)`, `
ALTER TABLE nacre_revocation ADD signed bytea`}
}

// List are the revocations of all nodes of an installation, in their database. Each
// question is one to the database: what was revoked at another node counts from the moment
// that Revoke returned there. A database that does not answer revokes everything. What a machine of the
// installation signed stays revoked where it was seen, whatever becomes of the rows.
type List struct {
	store *database.Store
	keep  Keep
}

// Keep keeps a revocation on this machine.
type Keep func(id, principal string, until time.Time) error

var _ token.Revocations = (*List)(nil)

// On are those in a store, which is not asked before the first question; nil where there is none.
func On(store *database.Store, keep Keep) token.Revocations {
	if store == nil {
		return nil
	}
	return &List{store, keep}
}

// Revoke implements [token.Revocations]: it is in the store when it returns nil.
func (s *List) Revoke(id, principal string, until time.Time) error {
	if err := token.CheckRevocation(id, principal); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	pool, err := s.store.Room(ctx, "revocation", Migrations)
	if err != nil {
		return err
	}
	now := row{ID: id, Principal: []byte(principal), Until: endOf(until)}
	_, _ = s.store.Name(ctx) // the first time it asks the database, which must not be while that is locked
	err = database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error {
		var others int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM nacre_revocation WHERE NOT (id = $1 AND principal = $2)`, id, []byte(principal)).Scan(&others)
		if err != nil {
			return err
		}
		if others >= token.MaxRevocations {
			return token.ErrRevocationsFull
		}
		var before *time.Time
		err = tx.QueryRow(ctx, `SELECT until FROM nacre_revocation WHERE id = $1 AND principal = $2`, id, now.Principal).Scan(&before)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err == nil && now.Until != nil && (before == nil || before.After(*now.Until)) {
			now.Until = before
		}
		_, err = tx.Exec(ctx, `INSERT INTO nacre_revocation AS r (id, principal, until, signed) VALUES ($1, $2, $3, $4) ON CONFLICT (id, principal)
			DO UPDATE SET until = excluded.until, signed = excluded.signed`, id, now.Principal, now.Until, s.signed(ctx, now))
		return err
	})
	if err != nil || s.keep == nil {
		return err
	}
	return s.keep(id, principal, now.end())
}

// endOf is an end as a database keeps it, in microseconds: never before its time.
func endOf(until time.Time) *time.Time {
	if until.IsZero() || until.UTC().Year() > lastYear {
		return nil
	}
	if whole := until.Truncate(time.Microsecond); whole.Before(until) {
		until = whole.Add(time.Microsecond)
	}
	return &until
}

// Revoked implements [token.Revocations].
func (s *List) Revoked(id, principal string, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	pool, err := s.store.Room(ctx, "revocation", Migrations)
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	principals := [][]byte{}
	for _, p := range above(principal) {
		principals = append(principals, []byte(p))
	}
	found, err := pool.Query(ctx, `SELECT id, principal, until, signed FROM nacre_revocation WHERE id = ANY($1) AND id <> ''
		OR id = '' AND principal = ANY($2) AND (until IS NULL OR until > $3)`, above(id), principals, now)
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrAsked, database.Classified(err))
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrAsked, database.Classified(err))
	}
	if len(rows) > 0 {
		s.seen(ctx, rows)
	}
	return len(rows) > 0, nil
}

// above is a name and those that it lies under; nothing for none.
func above(name string) []string {
	names := []string{}
	for at := range len(name) {
		if name[at] == '/' {
			names = append(names, name[:at])
		}
	}
	return append(names, name)
}

// Sweep implements [token.Revocations].
func (s *List) Sweep(now time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	pool, err := s.store.Room(ctx, "revocation", Migrations)
	if err != nil {
		return err
	}
	return database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error {
		var last time.Time
		err := tx.QueryRow(ctx, `SELECT at FROM nacre_revocation_sweep`).Scan(&last)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		over := now
		if last.Before(now) {
			over = last
		}
		if _, err := tx.Exec(ctx, `DELETE FROM nacre_revocation WHERE until <= $1`, over); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO nacre_revocation_sweep (at) VALUES ($1) ON CONFLICT (one) DO UPDATE SET at = excluded.at`, now)
		return err
	})
}
