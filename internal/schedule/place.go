package schedule

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// place is where schedules are kept: a file of one machine, or the database of several nodes.
type place interface {
	reader() session
	// write does all of it or nothing, for one process at a time.
	write(ctx context.Context, do func(tx session) error) error
	// classified is an error of the place's as a person is told of it.
	classified(err error) error
	close() error
}

// servers tells who serves the schedules.
type servers interface {
	// join makes this process one that does, and leave ends that.
	join(ctx context.Context) (id string, err error)
	leave() error
	// alive tells whether one is there. Where that cannot be told, it is.
	alive(id string) bool
	any() (bool, error)
}

// session is a database, or a transaction, that takes statements as SQLite does.
type session struct {
	to interface {
		ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
	}
	// postgres says that it takes them as PostgreSQL does.
	postgres bool
}

// ExecContext says a statement that changes something.
func (s session) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	return s.to.ExecContext(ctx, s.said(statement), args...)
}

// QueryContext says one that finds rows.
func (s session) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	return s.to.QueryContext(ctx, s.said(statement), args...)
}

// QueryRowContext says one that finds one row.
func (s session) QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row {
	return s.to.QueryRowContext(ctx, s.said(statement), args...)
}

// said writes ?N as $N, and ? as the one after the highest so far. No statement of this
// package has a question mark elsewhere.
func (s session) said(statement string) string {
	if !s.postgres {
		return statement
	}
	parts := strings.Split(statement, "?")
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

// inFile keeps schedules in an SQLite file.
type inFile struct{ file *sqlitefile.File }

func (p inFile) reader() session { return session{to: p.file.DB()} }

func (p inFile) write(ctx context.Context, do func(session) error) error {
	return p.file.Write(ctx, func(tx *sql.Tx) error { return do(session{to: tx}) })
}

func (inFile) classified(err error) error { return sqlitefile.Classified(err) }

func (p inFile) close() error { return p.file.Close() }
