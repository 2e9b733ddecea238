package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// ErrInUse says that a session which began before the store was named still has the file open.
var ErrInUse = errors.New("a nacre that began before [store] was set still uses it, and what that remembers now would be lost: end it, then run nacre store migrate again")

// manyRows is how many rows are written at once.
const manyRows = 500

// Bring puts what a file holds of a group into a memory in a store, and removes the file. Sessions in
// the file are this machine's. All of it comes in one transaction: half of it would show what was superseded as
// current, and would not be found by an erasure of what it derives from. What the store has already stays
// as it is there, and what was erased there does not come back, so that it may be interrupted anywhere and begun
// again. Errors: [ErrInUse], and those of the file and the store.
func Bring(ctx context.Context, to *Store, path string) (entries int, err error) {
	from, err := sqlitefile.Open(ctx, path, format())
	if err != nil {
		return 0, err
	}
	if err = alone(ctx, from.DB()); err == nil {
		err = to.at.Write(ctx, func(tx database.Session) error {
			b := bringing{to.base, from.DB(), tx}
			entries, err = b.all(ctx)
			return err
		})
	}
	if err = errors.Join(err, from.Close()); err != nil {
		return 0, err
	}
	for _, suffix := range []string{"-wal", "-shm", ""} { // the last one says that there is something to bring
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return entries, err
		}
	}
	return entries, nil
}

// alone puts all of a file's log into it, which needs that nobody else has it open.
func alone(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `PRAGMA journal_mode = DELETE`)
	if sqlitefile.IsBusy(err) {
		return ErrInUse
	}
	return sqlitefile.Classified(err)
}

// bringing copies one file's tables in one transaction.
type bringing struct {
	base
	from *sql.DB
	tx   database.Session
}

// all copies each table after those that it refers to. A statement is given many rows, each a list r of what was read, in
// their order n.
func (b bringing) all(ctx context.Context) (entries int, err error) {
	const rows = ` FROM json_array_elements(CAST(?1 AS json)) WITH ORDINALITY AS read(r, n)`
	entries, err = b.rows(ctx, `SELECT id, type, content, tags, behavioral, session_id, group_name, created_at, trust, label, expires_at FROM memory_entries WHERE group_name = ? ORDER BY seq`,
		[]any{string(b.group)}, `INSERT INTO memory_entries(id, type, content, tags, behavioral, session_id, group_name, created_at, trust, label, expires_at)
		SELECT r->>0, r->>1, r->>2, r->>3, CAST(r->>4 AS boolean), r->>5, r->>6, r->>7, r->>8, r->>9, r->>10`+rows+`
		WHERE NOT EXISTS (SELECT 1 FROM memory_gone WHERE id = r->>0) ORDER BY n ON CONFLICT DO NOTHING`, func(row []any) {
			row[4] = row[4] == int64(1)
			row[5] = b.session(row[5])
		})
	for _, table := range []struct {
		read, write string
		change      func(row []any)
	}{
		{`SELECT id, superseded_by FROM memory_entries WHERE superseded_by IS NOT NULL`,
			`UPDATE memory_entries SET superseded_by = r->>1` + rows + ` WHERE id = r->>0 AND superseded_by IS NULL AND EXISTS (SELECT 1 FROM memory_entries WHERE id = r->>1)`, nil},
		{`SELECT from_id, to_id, kind, session_id, created_at, verified FROM memory_edges`,
			`INSERT INTO memory_edges(from_id, to_id, kind, session_id, created_at, verified) SELECT r->>0, r->>1, r->>2, r->>3, r->>4, CAST(r->>5 AS integer)` + rows + `
			WHERE 2 = (SELECT count(*) FROM memory_entries WHERE id IN (r->>0, r->>1)) ON CONFLICT DO NOTHING`, func(row []any) { row[3] = b.session(row[3]) }},
		{`SELECT e.id, v.model, v.scale, v.vector FROM memory_vectors v JOIN memory_entries e ON e.seq = v.seq`,
			`INSERT INTO memory_vectors(seq, model, scale, vector) SELECT e.seq, r->>1, CAST(r->>2 AS double precision), decode(r->>3, 'base64')` + rows + ` JOIN memory_entries e ON e.id = r->>0 ON CONFLICT DO NOTHING`, nil},
		{`SELECT id, kind, project, task, cause, source FROM memory_lessons`,
			`INSERT INTO memory_lessons(id, kind, project, task, cause, source) SELECT e.id, r->>1, r->>2, r->>3, r->>4, r->>5` + rows + ` JOIN memory_entries e ON e.id = r->>0 ON CONFLICT DO NOTHING`,
			func(row []any) { row[5] = b.session(row[5]) }},
		{`SELECT child, parent, kind FROM memory_trail`, `INSERT INTO memory_trail(child, parent, kind) SELECT r->>0, r->>1, r->>2` + rows + ` ON CONFLICT DO NOTHING`,
			func(row []any) { row[0], row[1] = b.node(row[0]), b.node(row[1]) }},
		{`SELECT session_id, id FROM memory_recalled`, `INSERT INTO memory_recalled(session_id, id) SELECT r->>0, r->>1` + rows + ` ON CONFLICT DO NOTHING`, func(row []any) { row[0] = b.session(row[0]) }},
		{`SELECT id, session_id FROM memory_gone`, `INSERT INTO memory_gone(id, session_id) SELECT r->>0, r->>1` + rows + ` ON CONFLICT DO NOTHING`, func(row []any) { row[1] = b.session(row[1]) }},
		{`SELECT session_id, what, count FROM memory_used`, `INSERT INTO memory_used(session_id, what, count) SELECT r->>0, r->>1, CAST(r->>2 AS integer)` + rows + ` ON CONFLICT DO NOTHING`, func(row []any) { row[0] = b.session(row[0]) }},
	} {
		if err == nil {
			_, err = b.rows(ctx, table.read, nil, table.write, table.change)
		}
	}
	return entries, err
}

// session is what a session of the file is called in the store.
func (b bringing) session(name any) any {
	text, _ := name.(string)
	return b.machine.named(nacre.SessionID(text))
}

// node is one of the trail: an entry, or all that a session was told.
func (b bringing) node(id any) any {
	text, _ := id.(string)
	if session, is := strings.CutPrefix(text, sessionNode("")); is {
		return sessionNode(b.machine.named(nacre.SessionID(session)))
	}
	return id
}

// rows writes the rows that were read, and counts those that were not there yet.
func (b bringing) rows(ctx context.Context, read string, args []any, write string, change func([]any)) (written int, err error) {
	rows, err := b.from.QueryContext(ctx, read, args...)
	if err != nil {
		return 0, sqlitefile.Classified(err)
	}
	defer func() { _ = rows.Close() }() // Err below tells
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	var many [][]any
	for more := rows.Next(); more || len(many) > 0; more = more && rows.Next() {
		if more {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return written, err
			}
			if change != nil {
				change(row)
			}
			many = append(many, row)
		}
		if !more || len(many) == manyRows {
			n, err := b.put(ctx, write, many)
			if err != nil {
				return written, err
			}
			written, many = written+n, many[:0]
		}
	}
	return written, sqlitefile.Classified(rows.Err())
}

// put writes rows. No text of PostgreSQL's holds NUL, and SQLite's does.
func (b bringing) put(ctx context.Context, write string, rows [][]any) (written int, err error) {
	for _, row := range rows {
		for i := range row {
			if text, ok := row[i].(string); ok {
				row[i] = strings.ReplaceAll(text, "\x00", "\ufffd")
			}
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return 0, err
	}
	done, err := b.tx.ExecContext(ctx, write, string(text))
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}
