package memory

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

const (
	busyTimeout  = 5 * time.Second     // for another process's write
	purgeAfter   = 90 * 24 * time.Hour // of superseded entries (D-40)
	connections  = 4
	openAttempts = 20
	openPause    = 50 * time.Millisecond
)

// Options of a store.
type Options struct {
	// Group is whose memory it is; required.
	Group nacre.Group
	// Now is the clock; required.
	Now func() time.Time
	// NewID makes the ids of entries; nil means "mem-" and 26 random letters and digits.
	NewID func() string
	// Embed, where set, makes the vectors of Model, by which entries are found
	// beside their words (D-42).
	Embed Embed
	Model string
	// Warn is told what the operator should know, such as an endpoint that does not
	// answer; nil means nobody is.
	Warn func(string)
}

// Store is one group's memory. It is safe for concurrent use, also by several
// processes on one file.
type Store struct {
	db     *sql.DB
	path   string
	group  nacre.Group
	now    func() time.Time
	newID  func() string
	purged int
	redact *redact.Engine
	embed  Embed
	model  string
	warn   func(string)
	live   live
	seen   struct { // what Recalled has kept
		mu  sync.Mutex
		ids map[[2]string]bool
	}
	// lastChange asks for the number of the file's last change.
	lastChange *sql.Stmt
}

// UnusableError says that a memory cannot be used: the run must stop, with
// exit code 3 (D-45).
type UnusableError struct {
	Path string
	Err  error
}

func (e *UnusableError) Error() string { return "memory " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnusableError) Unwrap() error { return e.Err }

// Why a memory is unusable; everything else is the system's own error.
var (
	ErrNewer   = errors.New("written by a newer nacre: upgrade to use it")
	ErrDamaged = errors.New("damaged: restore the file from a backup, or move it away to start afresh")
	ErrForeign = errors.New("not a memory: another program's database")
	// ErrExposed is a file that others may have written to.
	ErrExposed  = errors.New("open to other users")
	ErrReadOnly = errors.New("cannot be written: give it back its write permission, or mend the file system")
	ErrFull     = errors.New("the disk is full: make room")
)

// Open opens the memory in a file, makes it where there is none, brings an
// older one forward and removes superseded entries older than 90 days. Every
// error but the context's is an [*UnusableError].
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if _, err := nacre.ParseGroup(string(o.Group)); err != nil || o.Now == nil {
		return nil, &UnusableError{path, errors.Join(err, errors.New("a group and a clock are required"))}
	}
	if o.NewID == nil {
		o.NewID = func() string { return "mem-" + rand.Text() }
	}
	s := &Store{path: path, group: o.Group, now: o.Now, newID: o.NewID, redact: redact.New(), embed: o.Embed, model: o.Model, warn: o.Warn}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	err := s.open(ctx)
	if err == nil {
		return s, nil
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &UnusableError{path, classified(err)}
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.path, err = filepath.Abs(s.path); err != nil {
		return err
	}
	if err := makeFile(s.path); err != nil {
		return err
	}
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(FULL)", "foreign_keys(ON)", "secure_delete(ON)", "trusted_schema(OFF)"},
	}
	file := url.URL{Scheme: "file", Path: s.path, RawQuery: query.Encode()}
	if s.db, err = sql.Open("sqlite", file.String()); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(connections)
	if err := s.writeAhead(ctx); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.purged, err = s.purge(ctx); err != nil {
		return err
	}
	if err := s.scrubLeft(ctx); err != nil {
		return err
	}
	s.lastChange, err = s.db.PrepareContext(ctx, `SELECT coalesce(max(change), 0) FROM memory_changes`)
	return err
}

// makeFile keeps the file from ever being readable by others, and refuses one
// that others could have read or written.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(ours(f), f.Close())
}

// ours refuses a file that others may have written to, and closes it to those
// who could only read it.
func ours(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a file")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: mode %v: see who wrote to it, then chmod 600", ErrExposed, info.Mode().Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d: chown it to the one who runs nacre", ErrExposed, stat.Uid)
	}
	if info.Mode().Perm() != 0o600 {
		return f.Chmod(0o600)
	}
	return nil
}

// writeAhead turns WAL on. Changing the mode does not wait for other
// processes by itself.
func (s *Store) writeAhead(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		var mode string
		err := s.db.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode)
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

// check reads every table, the full-text index's own included. What the index
// says is not held against the entries: that would read all words again.
func (s *Store) check(ctx context.Context) error {
	tables, err := texts(s.db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name`))
	for _, table := range tables {
		var result string
		if err := s.db.QueryRowContext(ctx, `PRAGMA quick_check('`+strings.ReplaceAll(table, "'", "''")+`')`).Scan(&result); err != nil {
			return err
		}
		if result != "ok" {
			return fmt.Errorf("%w (%s)", ErrDamaged, result)
		}
	}
	return err
}

func (s *Store) migrate(ctx context.Context) error {
	for {
		done, err := s.step(ctx)
		if done || err != nil {
			return err
		}
	}
}

// step runs one migration, and finds out under the write lock which.
func (s *Store) step(ctx context.Context) (done bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		var version, tables, ours int
		err := tx.QueryRowContext(ctx, `SELECT user_version, (SELECT count(*) FROM sqlite_schema),
			(SELECT count(*) FROM sqlite_schema WHERE name IN ('memory_entries', 'memory_fts')) FROM pragma_user_version`).Scan(&version, &tables, &ours)
		switch {
		case err != nil:
			return err
		case version > schemaVersion:
			return fmt.Errorf("version %d: %w", version, ErrNewer)
		case version == 0 && tables > 0, version < 0, version > 0 && ours != 2:
			return ErrForeign
		case version == schemaVersion:
			done = true
			return nil
		}
		if _, err := tx.ExecContext(ctx, migrations()[version]); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version=%d`, version+1))
		return err
	})
	return done, err
}

// purge removes superseded entries that are old enough, but none that a
// younger one still points to.
func (s *Store) purge(ctx context.Context) (int, error) {
	before := stamp(s.now().Add(-purgeAfter))
	var n int64
	err := s.write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `DELETE FROM memory_entries WHERE superseded_by IS NOT NULL AND created_at < ?1
			AND id NOT IN (SELECT superseded_by FROM memory_entries WHERE superseded_by IS NOT NULL AND created_at >= ?1)`, before)
		if err != nil {
			return err
		}
		if n, err = r.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM memory_changes WHERE change <= (SELECT max(change) FROM memory_changes) - ?`, maxChanges)
		return err
	})
	return int(n), err
}

// Purged is how many superseded entries Open removed.
func (s *Store) Purged() int { return s.purged }

// Close ends the use of the file.
func (s *Store) Close() error { return s.db.Close() }

// write runs f in a transaction that holds the write lock from its start.
func (s *Store) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return classified(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error counts
		return classified(err)
	}
	return classified(tx.Commit())
}

// classified marks what SQLite says of a damaged or foreign file.
func classified(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w (%w)", ErrFull, err)
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
