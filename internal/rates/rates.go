// Package rates counts the calls of all machines of an installation in its database (X-04,
// K-04, K-35).
//
// It promises what [policy.Limiter] promises for one process: that a call counts while its window
// lasts, exactly, by the database's clock. Calls which come at the same time at several machines
// are counted one after the other. Of several rates either all count a call or none does. Where the
// database does not answer, nobody can tell.
package rates

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/policy"
)

const (
	// asking bounds one question to the database.
	asking = 5 * time.Second
	// most is how many calls of one key are kept in a window, and swept how many that are over
	// are forgotten with each call.
	most, swept = 1 << 16, 100
)

// ErrAsked is a question that the store did not answer.
var ErrAsked = errors.New("the calls of all machines are counted in the [store], and it cannot be asked")

// Migrations are those of the table of calls. The calls of a key are numbered, so that whether a
// window is full is told by one row of it.
func Migrations() []string {
	return []string{`CREATE TABLE nacre_call (key bytea NOT NULL, n bigint NOT NULL, at timestamptz NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (key, n))`,
		`CREATE INDEX nacre_call_until ON nacre_call (until)`}
}

// Counter counts in a store.
type Counter struct{ store *database.Store }

var _ policy.Counter = (*Counter)(nil)

// On is the counter of a store, which is not asked before the first call; nil where there is none.
func On(store *database.Store) policy.Counter {
	if store == nil {
		return nil
	}
	return &Counter{store}
}

// rated are the rates of a call as the database takes them.
type rated struct {
	keys   [][]byte
	limits []int64
	// windows are in microseconds.
	windows []int64
}

const (
	// lockKeys lets one process at a time count under a key. Each takes them in one order.
	lockKeys = `SELECT pg_advisory_xact_lock(hashtextextended(encode(k, 'hex'), 0)) FROM (SELECT k FROM unnest($1::bytea[]) k ORDER BY k) k`
	// waitFor is, for each rate, until when its oldest call counts that stands in the way, or
	// nothing.
	waitFor = `SELECT coalesce((extract(epoch FROM max(c.at) - clock_timestamp()) * 1000000)::bigint + max(r.span), 0)
		FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) WITH ORDINALITY r (key, most, span, place)
		LEFT JOIN LATERAL (SELECT at FROM nacre_call c WHERE c.key = r.key
			AND c.n = (SELECT max(n) FROM nacre_call l WHERE l.key = r.key) - r.most + 1) c ON true
		GROUP BY r.place ORDER BY r.place`
	// countIn counts a call under each key.
	countIn = `INSERT INTO nacre_call SELECT r.key, coalesce((SELECT max(n) FROM nacre_call l WHERE l.key = r.key), 0) + 1,
			clock_timestamp(), clock_timestamp() + r.span * interval '1 microsecond'
		FROM unnest($1::bytea[], $2::bigint[]) r (key, span)`
	// sweep forgets some calls that are over, of whichever keys.
	sweep = `DELETE FROM nacre_call WHERE (key, n) IN (SELECT key, n FROM nacre_call WHERE until < clock_timestamp() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED)`
)

// Count implements [policy.Counter].
func (c *Counter) Count(rates []policy.Rate, take bool) (over int, wait time.Duration, err error) {
	if len(rates) == 0 {
		return 0, 0, nil
	}
	r := rated{}
	for i, one := range rates {
		if one.Limit.Calls < 1 || one.Limit.Window <= 0 { // an unusable limit allows nothing
			return i, max(one.Limit.Window, policy.RateWindow), nil
		}
		r.keys = append(r.keys, keyOf(one.Key))
		r.limits = append(r.limits, int64(min(one.Limit.Calls, most)))
		r.windows = append(r.windows, one.Limit.Window.Microseconds())
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	pool, err := c.store.Room(ctx, "rates", Migrations)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrAsked, err)
	}
	if !take {
		over, wait, err = r.ask(ctx, pool)
	} else {
		err = c.store.Write(ctx, pool, 0, func(tx pgx.Tx) (err error) {
			over, wait, err = r.count(ctx, tx)
			return err
		})
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrAsked, database.Classified(err))
	}
	return over, wait, nil
}

// queryer is a database or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ask finds the rate that has to wait longest.
func (r rated) ask(ctx context.Context, from queryer) (over int, wait time.Duration, err error) {
	rows, err := from.Query(ctx, waitFor, r.keys, r.limits, r.windows)
	if err != nil {
		return 0, 0, err
	}
	waits, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, 0, err
	}
	longest := slices.Max(waits)
	return slices.Index(waits, longest), max(0, time.Duration(longest)*time.Microsecond), nil
}

// count counts a call of each rate where all have one left.
func (r rated) count(ctx context.Context, tx pgx.Tx) (over int, wait time.Duration, err error) {
	if _, err := tx.Exec(ctx, lockKeys, r.keys); err != nil {
		return 0, 0, err
	}
	if over, wait, err = r.ask(ctx, tx); err != nil || wait > 0 {
		return over, wait, err
	}
	if _, err := tx.Exec(ctx, countIn, r.keys, r.windows); err != nil {
		return 0, 0, err
	}
	_, err = tx.Exec(ctx, sweep, swept)
	return 0, 0, err
}

// keyOf is a key as the database has it: of one length, whatever is in it.
func keyOf(k policy.RateKey) []byte {
	sum := sha256.New()
	for _, part := range []string{k.Principal, string(k.Group), string(k.Session), string(k.Capability)} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash takes everything
	}
	return sum.Sum(nil)
}
