// Package sqlitefile opens the SQLite files that nacre keeps its records in: each
// with a write-ahead log, mode 0600, whole or refused.
//
// It promises that a file which is damaged, empty where there was one, of another program or written by a newer nacre is refused, and is
// left as it was. So is one that is open to other users or not to be written, and the [*UnusableError] says what to do. A new file appears
// whole or not at all. Migrations go forward only, each in one transaction, and several processes may use one file at once. It knows
// nothing of what is in the tables.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	busyTimeout  = 10 * time.Second // for other processes' writes
	connections  = 4
	openAttempts = 20
	openPause    = 50 * time.Millisecond
	maxFinding   = 120 // bytes of what a check found
)

// Format is what a file must be.
type Format struct {
	// Name says to a person what the file is, such as "ledger"; required.
	Name string
	// Application is SQLite's application_id, by which the file is known as ours; 0
	// where files have none.
	Application int
	// Tables are some that every version has.
	Tables []string
	// Migrations[i] brings a file from version i to i+1.
	Migrations []string
	// Pragmas are set on every connection beside those of every file, such as "secure_delete(ON)".
	Pragmas []string
}

// File is an open file. It is safe for concurrent use.
type File struct {
	db     *sql.DB
	path   string
	format Format
	// checked is when all of it was read; inode is which file that was.
	checked time.Time
	inode   uint64
}

// UnusableError says that a file cannot be used; nothing of it was changed.
type UnusableError struct {
	Name string
	Path string
	Err  error
}

func (e *UnusableError) Error() string { return e.Name + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnusableError) Unwrap() error { return e.Err }

// Why a file is unusable; everything else is the system's own error.
var (
	ErrNewer    = errors.New("written by a newer nacre: upgrade to use it")
	ErrDamaged  = errors.New("damaged: restore the file from a backup, or move it away to start afresh")
	ErrForeign  = errors.New("another program's database: move it away")
	ErrReadOnly = errors.New("it cannot be written: check the owner and the mode of the file and its folder, and the disk")
	ErrFull     = errors.New("the disk is full: make room")
	ErrIO       = errors.New("it cannot be read or written: the disk is full, or it fails; make room, or have the disk looked at")
	// ErrExposed is a file that others may have written to.
	ErrExposed = errors.New("open to other users")
)

// Open opens a file, makes it where there is none, mode 0600, and brings an older
// one forward. Every error but the context's is an [*UnusableError].
func Open(ctx context.Context, path string, format Format) (*File, error) {
	file, err := open(ctx, path, format)
	if err == nil {
		return file, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &UnusableError{format.Name, path, Classified(err)}
}

func open(ctx context.Context, path string, format Format) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	there, err := Exists(path)
	if err == nil && !there {
		err = create(ctx, path, format)
	}
	if err != nil {
		return nil, err
	}
	return openFile(ctx, path, format)
}

// openFile opens what is there.
func openFile(ctx context.Context, path string, format Format) (*File, error) {
	if err := lookAt(path); err != nil {
		return nil, err
	}
	f := &File{path: path, format: format}
	if err := f.connect(); err != nil {
		return nil, err
	}
	if err := f.owned(ctx); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	f.inode = inodeOf(path)
	if err := f.prepare(ctx); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

func (f *File) connect() (err error) {
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(FULL)", "foreign_keys(ON)", "trusted_schema(OFF)"}, f.format.Pragmas...),
	}
	file := url.URL{Scheme: "file", Path: f.path, RawQuery: query.Encode()}
	if f.db, err = sql.Open("sqlite", file.String()); err != nil {
		return err
	}
	f.db.SetMaxOpenConns(connections)
	f.db.SetMaxIdleConns(connections)
	return nil
}

// prepare looks at the whole of the file and brings it forward.
func (f *File) prepare(ctx context.Context) error {
	for _, step := range []func(context.Context) error{f.writeAhead, f.check, f.migrate} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// owned refuses another program's database before anything is written to it.
func (f *File) owned(ctx context.Context) error {
	var version, id, tables int
	err := f.db.QueryRowContext(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`).Scan(&version, &id, &tables)
	switch {
	case err != nil:
		return err
	case id == 0 && version == 0 && tables == 0:
		return fmt.Errorf("%w: nothing is in it, and something always is in ours", ErrDamaged)
	case id != f.format.Application, version <= 0:
		return ErrForeign
	case version > len(f.format.Migrations):
		return fmt.Errorf("version %d: %w", version, ErrNewer)
	}
	for _, name := range f.format.Tables {
		if err := f.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`, name).Scan(&tables); err != nil {
			return err
		}
		if tables != 1 {
			return ErrForeign
		}
	}
	return nil
}

// writeAhead turns WAL on. Changing the mode does not wait for other
// processes by itself.
func (f *File) writeAhead(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		var mode string
		err := f.db.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("the file system does not allow a write-ahead log (journal mode %s)", mode)
		}
		if err == nil || !IsBusy(err) || attempt == openAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openPause):
		}
	}
}

// check reads every page, unless nothing has written to the file since that was done. A full-text index is held to be whole where the
// tables it is kept in are. What it says of the words is not held against them, which would read all of them again.
func (f *File) check(ctx context.Context) error {
	if at, ok := checked(f.path); ok {
		f.checked = at
		return nil
	}
	began := time.Now()
	if err := f.checkAll(ctx); err != nil {
		return err
	}
	f.checked = began
	return nil
}

func (f *File) checkAll(ctx context.Context) error {
	var indexes int
	if err := f.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%'`).Scan(&indexes); err != nil {
		return err
	}
	if indexes == 0 {
		return f.quickCheck(ctx, "1")
	}
	var tables []string
	rows, err := f.db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		tables = append(tables, "'"+strings.ReplaceAll(name, "'", "''")+"'")
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, table := range tables {
		if err := f.quickCheck(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) quickCheck(ctx context.Context, of string) error {
	var result string
	if err := f.db.QueryRowContext(ctx, `PRAGMA quick_check(`+of+`)`).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("%w (%s)", ErrDamaged, firstFinding(result))
	}
	return nil
}

// firstFinding is what a check of SQLite's found first, in one line. A page that was overwritten gives a line for each page below it, and a
// person needs none of them.
func firstFinding(result string) string {
	lines := strings.Split(strings.TrimSpace(result), "\n")
	if len(lines) > 1 && strings.HasPrefix(lines[0], "***") {
		lines = lines[1:] // the name of the database
	}
	first := lines[0]
	if len(first) > maxFinding {
		first = first[:maxFinding] + "…"
	}
	if more := len(lines) - 1; more > 0 {
		first += fmt.Sprintf(", and %d findings more", more)
	}
	return first
}

func (f *File) migrate(ctx context.Context) error {
	for {
		done, err := f.step(ctx)
		if done || err != nil {
			return err
		}
	}
}

// step runs one migration, and finds out under the write lock which.
func (f *File) step(ctx context.Context) (done bool, err error) {
	var version int
	newest := len(f.format.Migrations)
	if err := f.db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil || version == newest {
		return err == nil, err
	}
	err = f.Write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		if version > newest {
			return fmt.Errorf("version %d: %w", version, ErrNewer)
		}
		if done = version == newest; done {
			return nil // another process was first
		}
		if _, err := tx.ExecContext(ctx, f.format.Migrations[version]); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id=%d; PRAGMA user_version=%d`, f.format.Application, version+1))
		return err
	})
	return done, err
}

// DB is for reading. What it returns is to be passed through [Classified].
func (f *File) DB() *sql.DB { return f.db }

// Write runs do in a transaction that holds the write lock from its start: whole
// or not at all.
func (f *File) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return Classified(err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error counts
		return Classified(err)
	}
	return Classified(tx.Commit())
}

// Close ends the use of the file. What SQLite has written to it since it was checked is
// as good as what was there.
func (f *File) Close() error {
	err := f.db.Close()
	if err == nil && f.inode != 0 && inodeOf(f.path) == f.inode {
		keepChecked(f.path, f.checked)
	}
	return err
}

// Classified marks what SQLite says of a file that is damaged, locked away or
// has no room. Other errors stay as they are.
func Classified(err error) error {
	var kind error
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		kind = ErrDamaged
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		kind = ErrReadOnly
	case sqlite3.SQLITE_FULL:
		kind = ErrFull
	case sqlite3.SQLITE_IOERR:
		kind = ErrIO
	}
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w (%w)", kind, err)
}

// IsBusy tells of what another connection has locked.
func IsBusy(err error) bool {
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
