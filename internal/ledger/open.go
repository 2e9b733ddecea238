package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the ledger's, in the folder of nacre's state.
const FileName = "ledger.sqlite"

const (
	busyTimeout  = 10 * time.Second // for other processes' writes
	connections  = 4
	openAttempts = 20
	openPause    = 50 * time.Millisecond
)

// Ledger is an open ledger. It is safe for concurrent use, also by several
// processes on one file.
type Ledger struct {
	db   *sql.DB
	path string
	now  func() time.Time
}

// UnusableError says that a ledger cannot be used; nothing of it was changed.
type UnusableError struct {
	Path string
	Err  error
}

func (e *UnusableError) Error() string { return "ledger " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnusableError) Unwrap() error { return e.Err }

// Why a ledger is unusable; everything else is the system's own error.
var (
	ErrNewer    = errors.New("written by a newer nacre: upgrade to use it")
	ErrDamaged  = errors.New("damaged: restore the file from a backup, or move it away to start afresh")
	ErrForeign  = errors.New("not a ledger: another program's database")
	ErrReadOnly = errors.New("it cannot be written: check the owner and the mode of the file and its folder, and the disk")
)

// Open opens the ledger in a file, makes it where there is none, mode 0600,
// and brings an older one forward. now is the clock. Every error but the
// context's is an [*UnusableError].
func Open(ctx context.Context, path string, now func() time.Time) (*Ledger, error) {
	l := &Ledger{path: path, now: now}
	err := l.open(ctx)
	if err == nil {
		return l, nil
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &UnusableError{path, classified(err)}
}

func (l *Ledger) open(ctx context.Context) (err error) {
	if l.now == nil {
		return errors.New("a clock is required")
	}
	if l.path, err = filepath.Abs(l.path); err != nil {
		return err
	}
	if err := makeFile(l.path); err != nil {
		return err
	}
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(FULL)", "foreign_keys(ON)", "trusted_schema(OFF)"},
	}
	file := url.URL{Scheme: "file", Path: l.path, RawQuery: query.Encode()}
	if l.db, err = sql.Open("sqlite", file.String()); err != nil {
		return err
	}
	l.db.SetMaxOpenConns(connections)
	l.db.SetMaxIdleConns(connections)
	for _, step := range []func(context.Context) error{l.owned, l.writeAhead, l.check, l.migrate} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// makeFile keeps the file from ever being readable by others.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}

// owned refuses another program's database before anything is written to it.
func (l *Ledger) owned(ctx context.Context) error {
	var version, id, tables int
	err := l.db.QueryRowContext(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`).Scan(&version, &id, &tables)
	switch {
	case err != nil:
		return err
	case id == 0 && version == 0 && tables == 0:
		return nil // new
	case id != application:
		return ErrForeign
	case version > schemaVersion:
		return fmt.Errorf("version %d: %w", version, ErrNewer)
	case version <= 0:
		return ErrForeign
	}
	return nil
}

// writeAhead turns WAL on. Changing the mode does not wait for other
// processes by itself.
func (l *Ledger) writeAhead(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		var mode string
		err := l.db.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("the file system does not allow a write-ahead log (journal mode %s)", mode)
		}
		if err == nil || !isBusy(err) || attempt == openAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openPause):
		}
	}
}

func (l *Ledger) check(ctx context.Context) error {
	var result string
	if err := l.db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("%w (%s)", ErrDamaged, result)
	}
	return nil
}

func (l *Ledger) migrate(ctx context.Context) error {
	for {
		done, err := l.step(ctx)
		if done || err != nil {
			return err
		}
	}
}

// step runs one migration, and finds out under the write lock which.
func (l *Ledger) step(ctx context.Context) (done bool, err error) {
	var version int
	if err := l.db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil || version == schemaVersion {
		return err == nil, err
	}
	err = l.write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		if done = version >= schemaVersion; done {
			return nil // another process was first
		}
		if _, err := tx.ExecContext(ctx, migrations()[version]); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id=%d; PRAGMA user_version=%d`, application, version+1))
		return err
	})
	return done, err
}

// Close ends the use of the file.
func (l *Ledger) Close() error { return l.db.Close() }

// write runs f in a transaction that holds the write lock from its start.
func (l *Ledger) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return classified(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error counts
		return classified(err)
	}
	return classified(tx.Commit())
}

// classified marks what SQLite says of a damaged or locked-away file.
func classified(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	}
	return err
}

func isBusy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// code is SQLite's primary result code, 0 for other errors.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

const stampForm = "2006-01-02T15:04:05.000Z"

// stamp is ISO 8601 in UTC, of one width so that text order is time order.
func stamp(t time.Time) string { return t.UTC().Format(stampForm) }
