package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
)

const (
	// patience is how long a record waits for a store that is away, slow or full before the chain
	// ends, and again how long it waits to ask anew.
	patience = 15 * time.Second
	again    = 250 * time.Millisecond
)

// keeper keeps the chains of a machine that is admitted.
type keeper struct {
	store   *database.Store
	pool    *pgxpool.Pool
	machine string
}

// keep implements [audit.Elsewhere].
func (k *keeper) keep(b audit.Batch) (next uint64, err error) {
	err = patiently(context.Background(), patience, func(ctx context.Context) error {
		next, err = k.write(ctx, b)
		return err
	})
	return next, err
}

// patiently does something that may be done twice, and again for as long as the store is away, but not longer than most. An
// answer may be lost with its connection.
func patiently(ctx context.Context, most time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var before error
	for {
		err := do(ctx)
		if err == nil || !waits(err) {
			return err
		}
		if ctx.Err() != nil && before != nil {
			return before // what it waited for: this one was told to end
		}
		before = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(again):
		}
	}
}

// waits tells of an error that may be over soon.
func waits(err error) bool {
	for _, soon := range []error{database.ErrAway, database.ErrSlow, database.ErrFull, database.ErrIdle, database.ErrHeld} {
		if errors.Is(err, soon) {
			return true
		}
	}
	return false
}

// put takes a batch that begins where the chain ends, under the process's lease, in one statement: that
// either comes whole before the lease's end, or changes nothing. The lease's arguments come after its own.
const put = `WITH held AS (%s), moved AS (
	INSERT INTO nacre_chain AS c (machine, chain, upto, head) SELECT $1, $2, $4, $5 FROM held
		WHERE $3 = 0::bigint OR EXISTS (SELECT FROM nacre_chain WHERE machine = $1 AND chain = $2)
	ON CONFLICT (machine, chain) DO UPDATE SET upto = excluded.upto, head = excluded.head WHERE c.upto = $3 - 1
	RETURNING true)
INSERT INTO nacre_chain_line (machine, chain, first, upto, lines) SELECT $1, $2, $3, $4, $6 FROM moved`

// write puts a batch into the store, and says which record that lacks then. One whose answer was
// lost is there already.
func (k *keeper) write(ctx context.Context, b audit.Batch) (next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	args := []any{k.machine, b.Chain, b.First, b.Head.Seq, b.Head.Bytes(), b.Lines}
	held, heldArgs := k.store.Held(len(args))
	done, err := k.pool.Exec(ctx, fmt.Sprintf(put, held), append(args, heldArgs...)...)
	if err != nil || done.RowsAffected() > 0 {
		return b.Head.Seq + 1, told(err)
	}
	return next, told(k.store.Write(ctx, k.pool, 0, func(tx pgx.Tx) error { // which tells of a lease that is over
		return tx.QueryRow(ctx, `SELECT coalesce((SELECT upto + 1 FROM nacre_chain WHERE machine = $1 AND chain = $2), 0)`, k.machine, b.Chain).Scan(&next)
	}))
}
