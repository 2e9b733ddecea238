package schedule

import (
	"context"
	"database/sql"

	"github.com/nacre-dev/nacre/internal/database"
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

// session takes statements as SQLite does.
type session = database.Session

// inFile keeps schedules in an SQLite file.
type inFile struct{ file *sqlitefile.File }

func (p inFile) reader() session { return database.SQLite(p.file.DB()) }

func (p inFile) write(ctx context.Context, do func(session) error) error {
	return p.file.Write(ctx, func(tx *sql.Tx) error { return do(database.SQLite(tx)) })
}

func (inFile) classified(err error) error { return sqlitefile.Classified(err) }

func (p inFile) close() error { return p.file.Close() }
