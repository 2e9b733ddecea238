package memory

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Bring puts what a file holds of a group into a memory in a store, and removes the file. Sessions in
// the file are this machine's. What the store has already stays as it is there, and what was
// erased there does not come back: a second time brings what an interrupted one did not.
func Bring(ctx context.Context, to *Store, path string) (entries int, err error) {
	from, err := sqlitefile.Open(ctx, path, format())
	if err != nil {
		return 0, err
	}
	err = to.at.Write(ctx, func(tx database.Session) error {
		b := bringing{to.base, from.DB(), tx}
		entries, err = b.all(ctx)
		return err
	})
	if err = errors.Join(err, from.Close()); err != nil {
		return 0, err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return entries, err
		}
	}
	return entries, nil
}

// bringing copies one file's tables in one transaction.
type bringing struct {
	base
	from *sql.DB
	tx   database.Session
}

// all copies each table after those that it refers to.
func (b bringing) all(ctx context.Context) (entries int, err error) {
	entries, err = b.rows(ctx, `SELECT id, type, content, tags, behavioral, session_id, group_name, created_at, trust, label, expires_at FROM memory_entries WHERE group_name = ? ORDER BY seq`,
		[]any{string(b.group)}, `INSERT INTO memory_entries(id, type, content, tags, behavioral, session_id, group_name, created_at, trust, label, expires_at)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 WHERE NOT EXISTS (SELECT 1 FROM memory_gone WHERE id = ?1) ON CONFLICT DO NOTHING`, func(row []any) {
			row[4] = row[4] == int64(1)
			row[5] = b.session(row[5])
		})
	for _, table := range []struct {
		read, write string
		change      func(row []any)
	}{
		{`SELECT id, superseded_by FROM memory_entries WHERE superseded_by IS NOT NULL`,
			`UPDATE memory_entries SET superseded_by = ?2 WHERE id = ?1 AND superseded_by IS NULL AND EXISTS (SELECT 1 FROM memory_entries WHERE id = ?2)`, nil},
		{`SELECT from_id, to_id, kind, session_id, created_at, verified FROM memory_edges`,
			`INSERT INTO memory_edges(from_id, to_id, kind, session_id, created_at, verified) SELECT ?1, ?2, ?3, ?4, ?5, CAST(?6 AS integer)
			WHERE 2 = (SELECT count(*) FROM memory_entries WHERE id IN (?1, ?2)) ON CONFLICT DO NOTHING`, func(row []any) { row[3] = b.session(row[3]) }},
		{`SELECT e.id, v.model, v.scale, v.vector FROM memory_vectors v JOIN memory_entries e ON e.seq = v.seq`,
			`INSERT INTO memory_vectors(seq, model, scale, vector) SELECT seq, ?2, ?3, ?4 FROM memory_entries WHERE id = ?1 ON CONFLICT DO NOTHING`, nil},
		{`SELECT id, kind, project, task, cause, source FROM memory_lessons`,
			`INSERT INTO memory_lessons(id, kind, project, task, cause, source) SELECT id, ?2, ?3, ?4, ?5, ?6 FROM memory_entries WHERE id = ?1 ON CONFLICT DO NOTHING`,
			func(row []any) { row[5] = b.session(row[5]) }},
		{`SELECT child, parent, kind FROM memory_trail`, `INSERT INTO memory_trail(child, parent, kind) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING`,
			func(row []any) { row[0], row[1] = b.node(row[0]), b.node(row[1]) }},
		{`SELECT session_id, id FROM memory_recalled`, `INSERT INTO memory_recalled(session_id, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING`, func(row []any) { row[0] = b.session(row[0]) }},
		{`SELECT id, session_id FROM memory_gone`, `INSERT INTO memory_gone(id, session_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING`, func(row []any) { row[1] = b.session(row[1]) }},
		{`SELECT session_id, what, count FROM memory_used`, `INSERT INTO memory_used(session_id, what, count) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING`, func(row []any) { row[0] = b.session(row[0]) }},
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

// rows writes each row that was read, and counts those that were not there yet.
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
	for rows.Next() {
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
		done, err := b.tx.ExecContext(ctx, write, row...)
		if err != nil {
			return written, err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return written, err
		}
		written += int(n)
	}
	return written, sqlitefile.Classified(rows.Err())
}
