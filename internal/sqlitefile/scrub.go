package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// scrubPause is between two tries, and scrubBusy how long one waits for a lock.
	scrubPause = 100 * time.Millisecond
	scrubBusy  = 100 * time.Millisecond
)

// ErrLingers says that what was deleted may still be in a file's bytes, since
// another connection reads or writes it.
var ErrLingers = errors.New("another process uses the file, and keeps traces there of what was erased: stop it, or ask again")

// scrubTable holds one row for each deletion whose traces are in the file still.
const scrubTable = `CREATE TABLE IF NOT EXISTS nacre_scrub (id INTEGER PRIMARY KEY AUTOINCREMENT)`

// Execer is a database or a transaction.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// MarkScrub notes, before something is deleted or in the same transaction, that
// traces of it are to be removed. The mark stays until [Scrub] has removed them,
// also over a crash.
func MarkScrub(ctx context.Context, e Execer) error {
	if _, err := e.ExecContext(ctx, scrubTable); err != nil {
		return err
	}
	_, err := e.ExecContext(ctx, `INSERT INTO nacre_scrub DEFAULT VALUES`)
	return err
}

// Scrub removes the traces of all that was marked. Without a mark it does nothing.
// It waits for others who use the file as long as patience says; its error then is
// [ErrLingers], and the mark stays.
func Scrub(ctx context.Context, db *sql.DB, patience time.Duration) error {
	last, err := lastMark(ctx, db)
	if err != nil || last == 0 {
		return err
	}
	if err := Rewrite(ctx, db, patience); err != nil {
		return err
	}
	// What was marked meanwhile stays marked: it may have come too late for this.
	_, err = db.ExecContext(ctx, `DELETE FROM nacre_scrub WHERE id <= ?`, last)
	if IsBusy(err) {
		return fmt.Errorf("%w (%w)", ErrLingers, err)
	}
	return err
}

// Marked tells whether traces are in a file that are to be removed.
func Marked(ctx context.Context, db *sql.DB) (bool, error) {
	last, err := lastMark(ctx, db)
	return last > 0, err
}

func lastMark(ctx context.Context, db *sql.DB) (last int64, err error) {
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'nacre_scrub'`).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM nacre_scrub`).Scan(&last)
	return last, err
}

// Rewrite writes a file anew without its free pages, and empties its log. It waits
// for others who use the file as long as patience says. Error: [ErrLingers].
func Rewrite(ctx context.Context, db *sql.DB, patience time.Duration) error {
	return cleaned(ctx, db, patience, vacuum)
}

// cleaned does a step on a file with an empty log, and empties the log of it.
func cleaned(ctx context.Context, db *sql.DB, patience time.Duration, step func(context.Context, *sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_, back := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout=%d`, busyTimeout.Milliseconds()))
		err = errors.Join(err, back, conn.Close())
	}()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout=%d`, scrubBusy.Milliseconds())); err != nil {
		return err
	}
	until := time.Now().Add(patience)
	// The log first: where others are in the way, the file is not written in vain.
	for _, step := range []func(context.Context, *sql.Conn) error{emptyLog, step, emptyLog} {
		if err := insist(ctx, until, func() error { return step(ctx, conn) }); err != nil {
			return err
		}
	}
	return nil
}

func vacuum(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `VACUUM`)
	return err
}

func emptyLog(ctx context.Context, conn *sql.Conn) error {
	var busy, log, done int
	err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &done)
	if err == nil && busy != 0 {
		err = ErrLingers
	}
	return err
}

// insist does a step until nobody is in its way any more.
func insist(ctx context.Context, until time.Time, step func() error) error {
	for {
		err := step()
		if err == nil || !IsBusy(err) && !errors.Is(err, ErrLingers) {
			return err
		}
		if time.Now().After(until) {
			return ErrLingers
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scrubPause):
		}
	}
}
