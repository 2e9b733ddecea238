package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// FileName is the ledger's, in the folder of nacre's state.
const FileName = "ledger.sqlite"

// Ledger is an open ledger. It is safe for concurrent use, also by several
// processes on one file.
type Ledger struct {
	file *sqlitefile.File
	now  func() time.Time
}

// Open opens the ledger in a file, makes it where there is none, mode 0600,
// and brings an older one forward. now is the clock. Every error but the
// context's is a [*sqlitefile.UnusableError].
func Open(ctx context.Context, path string, now func() time.Time) (*Ledger, error) {
	if now == nil {
		return nil, &sqlitefile.UnusableError{Name: name, Path: path, Err: errors.New("a clock is required")}
	}
	file, err := sqlitefile.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	l := &Ledger{file, now}
	// What others kept from being scrubbed goes now, or stays marked: [Ledger.Traces] tells.
	_ = l.scrub(ctx, 0)
	return l, nil
}

// Close ends the use of the file.
func (l *Ledger) Close() error { return l.file.Close() }

const stampForm = "2006-01-02T15:04:05.000Z"

// stamp is ISO 8601 in UTC, of one width so that text order is time order.
func stamp(t time.Time) string { return t.UTC().Format(stampForm) }

// stampOf is the stamp of a time, or of now where it is zero.
func stampOf(now func() time.Time, t time.Time) string {
	if t.IsZero() {
		t = now()
	}
	return stamp(t)
}
