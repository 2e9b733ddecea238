package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// FileName is the ledger's, in the folder of nacre's state.
const FileName = "ledger.sqlite"

// Ledger is an open ledger. It is safe for concurrent use, also by several
// processes on one file.
type Ledger struct {
	at  database.Tables
	now func() time.Time
	// file is that of one machine's ledger, out of whose bytes texts are scrubbed; nil in a store.
	file    *sqlitefile.File
	machine machine
}

// machine tells one machine's sessions from those of others in a store, which may have the
// same names; empty in a file.
type machine string

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
	l := &Ledger{at: database.InFile(file, sqlitefile.Classified), now: now, file: file}
	// What others kept from being scrubbed goes now, or stays marked: [Ledger.Traces] tells.
	_ = l.scrub(ctx, 0)
	return l, nil
}

// oneAtATime is the advisory lock of whoever writes the ledger in a store.
const oneAtATime = 0x6e636c67

// OpenOn opens the ledger that the machines of an installation share. What a node writes to it comes before the end
// of its lease, or is refused. Sessions are those of the machine with the given id, of at least
// [machineLength] letters. Another one's are told by the beginning of its id, a slash and their names, and nothing
// is done to their runs by the session's name.
func OpenOn(ctx context.Context, store *database.Store, id string, now func() time.Time) (*Ledger, error) {
	if now == nil || len(id) < machineLength {
		return nil, errors.New("ledger: a clock and a machine's id are required")
	}
	at, err := store.Tables(ctx, "ledger", oneAtATime, Migrations)
	if err != nil {
		return nil, err
	}
	return &Ledger{at: at, now: now, machine: machine(id[:machineLength])}, nil
}

// machineLength is how many letters of its id name a machine.
const machineLength = 12

// named is a session's name in the tables.
func (m machine) named(session string) string {
	if m == "" || session == "" {
		return session
	}
	return string(m) + "/" + session
}

// list is that of the names of sessions in the tables, in JSON.
func (m machine) list(sessions []string) (string, error) {
	named := make([]string, 0, len(sessions))
	for _, s := range sessions {
		named = append(named, m.named(s))
	}
	data, err := json.Marshal(named)
	return string(data), err
}

// ours gives runs of this machine's sessions these sessions' names.
func (m machine) ours(list []Run) []Run {
	if m != "" {
		for i := range list {
			list[i].Session = strings.TrimPrefix(list[i].Session, string(m)+"/")
		}
	}
	return list
}

// Close ends the use of the ledger.
func (l *Ledger) Close() error { return l.at.Close() }

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
