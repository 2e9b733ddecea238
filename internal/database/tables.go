package database

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
)

// Session is a database, or a transaction, that takes statements as SQLite does. A room whose
// tables are the same in both writes each statement once. Of SQLite's own words it may use
// json_each of a list of texts, instr, INDEXED BY and the unary + before a column.
type Session struct {
	to queryer
	// postgres says that it takes them as PostgreSQL does.
	postgres bool
}

// queryer is what both databases and their transactions are.
type queryer interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
}

// SQLite is a session of an SQLite file's.
func SQLite(to queryer) Session { return Session{to: to} }

// Postgres is a session of a PostgreSQL's.
func Postgres(to queryer) Session { return Session{to: to, postgres: true} }

// ExecContext says a statement that changes something.
func (s Session) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	return s.to.ExecContext(ctx, s.said(statement), s.held(args)...)
}

// QueryContext says one that finds rows.
func (s Session) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	return s.to.QueryContext(ctx, s.said(statement), s.held(args)...)
}

// QueryRowContext says one that finds one row.
func (s Session) QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row {
	return s.to.QueryRowContext(ctx, s.said(statement), s.held(args)...)
}

// said writes ?N as $N, and ? as the one after the highest so far, and SQLite's own words as
// PostgreSQL has them. No statement has a question mark elsewhere.
func (s Session) said(statement string) string {
	if !s.postgres {
		return statement
	}
	parts := strings.Split(translated(statement), "?")
	var b strings.Builder
	b.WriteString(parts[0])
	highest := 0
	for _, part := range parts[1:] {
		rest := strings.TrimLeft(part, "0123456789")
		n, err := strconv.Atoi(part[:len(part)-len(rest)])
		if err != nil {
			n = highest + 1
		}
		highest = max(highest, n)
		b.WriteString("$" + strconv.Itoa(n) + rest)
	}
	return b.String()
}

// translated writes what SQLite alone understands in PostgreSQL's words. Its hints to the planner are left out.
func translated(statement string) string {
	var b strings.Builder
	for rest := strings.ReplaceAll(statement, "instr(", "strpos("); rest != ""; {
		before, list, found := strings.Cut(rest, "json_each(")
		b.WriteString(before)
		if !found {
			break
		}
		list, rest, _ = strings.Cut(list, ")")
		b.WriteString("json_array_elements_text(CAST(nullif(" + list + ", 'null') AS json)) AS value")
	}
	words := strings.Fields(b.String())
	var kept []string
	for i := 0; i < len(words); i++ {
		if words[i] == "INDEXED" && i+2 < len(words) && words[i+1] == "BY" {
			i += 2
			continue
		}
		word := words[i]
		if len(word) > 1 {
			word = strings.TrimPrefix(word, "+")
		}
		kept = append(kept, word)
	}
	return strings.Join(kept, " ")
}

// held puts U+FFFD for what no text of PostgreSQL holds, and SQLite's does: NUL, and what is
// no UTF-8.
func (s Session) held(args []any) []any {
	if !s.postgres {
		return args
	}
	held := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		}
		held[i] = arg
	}
	return held
}

// Tables are a room's: in an SQLite file of one machine, or in the store of several.
type Tables interface {
	// Reader reads outside of a transaction.
	Reader() Session
	// View reads all of it as it is at one moment.
	View(ctx context.Context, do func(tx Session) error) error
	// Write does all of it or nothing, for one process at a time.
	Write(ctx context.Context, do func(tx Session) error) error
	// Classified is an error of theirs as a person is told of it.
	Classified(err error) error
	Close() error
}

// File is an SQLite file.
type File interface {
	DB() *sql.DB
	Write(ctx context.Context, do func(tx *sql.Tx) error) error
	Close() error
}

// InFile are the tables in an SQLite file, whose errors are told as classified does.
func InFile(file File, classified func(error) error) Tables { return inFile{file, classified} }

type inFile struct {
	file       File
	classified func(error) error
}

// Reader implements [Tables].
func (t inFile) Reader() Session { return SQLite(t.file.DB()) }

// View implements [Tables].
func (t inFile) View(ctx context.Context, do func(Session) error) error {
	return view(ctx, t.file.DB(), sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error { return do(SQLite(tx)) })
}

// Write implements [Tables].
func (t inFile) Write(ctx context.Context, do func(Session) error) error {
	return t.file.Write(ctx, func(tx *sql.Tx) error { return do(SQLite(tx)) })
}

// Classified implements [Tables].
func (t inFile) Classified(err error) error { return t.classified(err) }

// Close implements [Tables].
func (t inFile) Close() error { return t.file.Close() }

// view does something in a transaction that changes nothing.
func view(ctx context.Context, db *sql.DB, o sql.TxOptions, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it was only read
	return do(tx)
}

// Tables are a room's in the store, brought forward. What this process writes to them is
// under its lease, if it has one, and under the room's own lock: one process of the
// installation at a time.
func (s *Store) Tables(ctx context.Context, room string, lock int64, migrations func() []string) (Tables, error) {
	pool, err := s.Room(ctx, room, migrations)
	if err != nil {
		return nil, err
	}
	return &inStore{db: stdlib.OpenDBFromPool(pool), store: s, lock: lock}, nil
}

type inStore struct {
	db    *sql.DB
	store *Store
	lock  int64
}

// Reader implements [Tables].
func (t *inStore) Reader() Session { return Postgres(t.db) }

// View implements [Tables].
func (t *inStore) View(ctx context.Context, do func(Session) error) error {
	return view(ctx, t.db, sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, func(tx *sql.Tx) error { return do(Postgres(tx)) })
}

// Write implements [Tables].
func (t *inStore) Write(ctx context.Context, do func(Session) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return Classified(err)
	}
	if err = t.mayWrite(ctx, tx); err == nil {
		err = do(Postgres(tx))
	}
	if err != nil {
		_ = tx.Rollback() // the first error counts
		return Classified(err)
	}
	return Classified(tx.Commit())
}

// mayWrite waits until nobody else writes, and holds the lease of a process that has one.
func (t *inStore) mayWrite(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", t.lock); err != nil {
		return err
	}
	lease := t.store.leased()
	if lease.Statement == "" {
		return nil
	}
	var held bool
	err := tx.QueryRowContext(ctx, lease.Statement, lease.Args...).Scan(&held)
	if errors.Is(err, sql.ErrNoRows) {
		return lease.Over
	}
	return err
}

// Classified implements [Tables].
func (*inStore) Classified(err error) error { return Classified(err) }

// Close ends the use of the tables; the store's connections stay.
func (t *inStore) Close() error { return t.db.Close() }
