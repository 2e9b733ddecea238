// Package rows promises SQLite files of audit's that are their owner's alone. One of them holds
// lines and heads of chains as rows, and what is written waits in a transaction until it is
// committed. What the lines say is for others to check.
package rows

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/nacre-dev/nacre/audit/internal/keyfile"
)

// busy is how long a statement waits for another process.
const busy = 30 * time.Second

// Durability says what a commit survives.
type Durability string

// The durabilities of a file.
const (
	// Durable keeps what was committed through a loss of power.
	Durable Durability = "synchronous(FULL)"
	// Careless is for a file that can be made anew.
	Careless Durability = "synchronous(OFF)"
)

// Open opens a private database file with one connection, making it
// where there is none.
func Open(path string, durability Durability) (*sql.DB, error) {
	// One that is there is not opened here: closing it again would drop every lock
	// that this process has on it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		err = keyfile.Private(path, info)
	}
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), string(durability), "trusted_schema(OFF)", "cell_size_check(ON)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: absolute, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Prepare makes the tables of a database that is new. One of another version is an error.
func Prepare(ctx context.Context, db *sql.DB, version int, schema string) error {
	var found, tables int
	err := db.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").Scan(&found, &tables)
	switch {
	case err != nil || found == version:
		return err
	case found != 0 || tables != 0:
		return fmt.Errorf("version %d is not one that this nacre knows", found)
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("BEGIN IMMEDIATE; %s PRAGMA user_version = %d; COMMIT", schema, version))
	return err
}

// version is the user_version of a database of chains.
const version = 1

// schema holds the lines of segments as they are, and the heads.
const schema = `
CREATE TABLE line (chain TEXT, seq INTEGER, text BLOB, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE TABLE head (chain TEXT PRIMARY KEY, text BLOB) WITHOUT ROWID;
`

// Lines is the database of one writer.
type Lines struct {
	db *sql.DB
	tx *sql.Tx
}

// OpenLines opens the database at path, and makes it where there is none.
func OpenLines(ctx context.Context, path string) (*Lines, error) {
	db, err := Open(path, Durable)
	if err != nil {
		return nil, err
	}
	if err = Prepare(ctx, db, version, schema); err == nil {
		_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit database %s: %w", path, err), db.Close())
	}
	return &Lines{db: db}, nil
}

// Transaction begins a transaction where there is none.
func (l *Lines) Transaction() (*sql.Tx, error) {
	var err error
	if l.tx == nil {
		l.tx, err = l.db.BeginTx(context.Background(), nil) // ends with Commit or Release
	}
	return l.tx, err
}

// Commit makes durable what was written.
func (l *Lines) Commit() error {
	if l.tx == nil {
		return nil
	}
	tx := l.tx
	l.tx = nil
	return tx.Commit()
}

// SetHead replaces a chain's head, and commits.
func (l *Lines) SetHead(chain string, line []byte) error {
	tx, err := l.Transaction()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(context.Background(), "INSERT OR REPLACE INTO head VALUES (?, ?)", chain, line); err != nil {
		return err
	}
	return l.Commit()
}

// Release drops what was not committed and closes the file.
func (l *Lines) Release() error {
	var err error
	if l.tx != nil {
		err = l.tx.Rollback()
	}
	return errors.Join(err, l.db.Close())
}

// Row is a line or a head, and its chain.
type Row struct {
	Chain string
	Text  []byte
}

// Select gives the rows of chains and texts that a query in the transaction selects.
func (l *Lines) Select(ctx context.Context, query string, args ...any) (list []Row, err error) {
	found, err := l.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var b Row
		if err := found.Scan(&b.Chain, &b.Text); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, found.Err()
}

// Add writes lines of a chain as rows from seq on. Each ends with a newline, which is not kept.
func (l *Lines) Add(chain string, seq uint64, lines []byte) (n int, err error) {
	tx, err := l.Transaction()
	if err != nil {
		return 0, err
	}
	insert, err := tx.PrepareContext(context.Background(), "INSERT INTO line VALUES (?, ?, ?)")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(lines) {
		at := int64(seq) + int64(n) //nolint:gosec // a record's number, which has at most 53 bits
		if _, err := insert.ExecContext(context.Background(), chain, at, line[:len(line)-1]); err != nil {
			return n, errors.Join(err, insert.Close())
		}
		n++
	}
	return n, insert.Close()
}

// Extent is which rows a chain has. With none, all is 0.
type Extent struct {
	First, Next uint64
	Bytes       int64
}

// Extent looks at what is committed.
func (l *Lines) Extent(chain string) (Extent, error) {
	var first, next, size sql.NullInt64
	err := l.db.QueryRowContext(context.Background(), "SELECT min(seq), max(seq) + 1, sum(length(text) + 1) FROM line WHERE chain = ?", chain).Scan(&first, &next, &size)
	return Extent{First: uint64(first.Int64), Next: uint64(next.Int64), Bytes: size.Int64}, err //nolint:gosec // a number below 0 is too large then, and no record has it
}

// Line is the committed line of a record; with [sql.ErrNoRows] there is none.
func (l *Lines) Line(chain string, seq uint64) (raw []byte, err error) {
	at := int64(seq) //nolint:gosec // no record has a number that is too large
	err = l.db.QueryRowContext(context.Background(), "SELECT text FROM line WHERE chain = ? AND seq = ?", chain, at).Scan(&raw)
	return raw, err
}

// Head is the committed head of a chain; with [sql.ErrNoRows] there is none.
func (l *Lines) Head(chain string) (raw []byte, err error) {
	err = l.db.QueryRowContext(context.Background(), "SELECT text FROM head WHERE chain = ?", chain).Scan(&raw)
	return raw, err
}

// Freeze begins a transaction that reads one moment of the database, while others write.
func (l *Lines) Freeze(ctx context.Context) (err error) {
	l.tx, err = l.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	return err
}

// Each gives fn the lines of a chain in the transaction, in their order, with their numbers. They
// are fn's to keep.
func (l *Lines) Each(ctx context.Context, chain string, fn func(seq uint64, line []byte) error) (err error) {
	found, err := l.tx.QueryContext(ctx, "SELECT seq, text FROM line WHERE chain = ? ORDER BY seq", chain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var seq uint64
		var line []byte
		if err := found.Scan(&seq, &line); err != nil {
			return err
		}
		if err := fn(seq, line); err != nil {
			return err
		}
	}
	return found.Err()
}
