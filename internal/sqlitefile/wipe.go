package sqlitefile

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"
)

// errLayout is a page that is not as the format says, or as this file reads it.
var errLayout = errors.New("a page's layout is not known")

// Wipe removes the traces of what was deleted as [Rewrite] does, at the cost of reading the file
// once. It is for files whose connections have secure_delete(ON), which overwrites a row where it
// last stood. What is left then are the copies in the unused bytes of pages, from which rows have
// moved. A file of which more is free than used is written anew. It waits as Rewrite does. Error:
// [ErrLingers].
func Wipe(ctx context.Context, db *sql.DB, patience time.Duration) error {
	var pages, free int
	if err := db.QueryRowContext(ctx, `SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count`).Scan(&pages, &free); err != nil {
		return err
	}
	if free > pages/2 {
		return Rewrite(ctx, db, patience)
	}
	err := cleaned(ctx, db, patience, wipe)
	if errors.Is(err, errLayout) {
		return Rewrite(ctx, db, patience)
	}
	return err
}

// wipe overwrites the unused bytes of every page that has something in them.
func wipe(ctx context.Context, conn *sql.Conn) (err error) {
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	defer func() {
		end := `COMMIT`
		if err != nil {
			end = `ROLLBACK`
		}
		_, ended := conn.ExecContext(context.WithoutCancel(ctx), end)
		err = errors.Join(err, ended)
	}()
	dirty, err := dirtyPages(ctx, conn)
	if err != nil {
		return err
	}
	for number, page := range dirty {
		if _, err := conn.ExecContext(ctx, `UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?`, page, number); err != nil {
			return err
		}
	}
	return nil
}

// dirtyPages are those whose unused bytes hold something, as they are without it.
func dirtyPages(ctx context.Context, conn *sql.Conn) (dirty map[uint32][]byte, err error) {
	free, reserved, err := freePages(ctx, conn)
	if err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, `SELECT pgno, data FROM sqlite_dbpage`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dirty = map[uint32][]byte{}
	var buffer []byte // so that a page is kept only where it changes
	for rows.Next() {
		var number uint32
		var page sql.RawBytes
		if err := rows.Scan(&number, &page); err != nil {
			return nil, err
		}
		buffer = append(buffer[:0], page...)
		header := 0
		if number == 1 {
			header = fileHeader
		}
		changed, known := false, true
		if free[number] {
			changed = zero(buffer)
		} else {
			changed, known = unused(buffer, header, reserved)
		}
		if !known {
			return nil, errLayout
		}
		if changed {
			dirty[number] = bytes.Clone(buffer)
		}
	}
	return dirty, rows.Err()
}

// freePages are the leaves of the freelist, in which nothing is stored, and the bytes of
// each page that are an extension's.
func freePages(ctx context.Context, conn *sql.Conn) (free map[uint32]bool, reserved int, err error) {
	page := func(number uint32) (data []byte, err error) {
		err = conn.QueryRowContext(ctx, `SELECT data FROM sqlite_dbpage WHERE pgno = ?`, number).Scan(&data)
		return data, err
	}
	first, err := page(1)
	if err != nil {
		return nil, 0, err
	}
	if len(first) < fileHeader {
		return nil, 0, errLayout
	}
	free = map[uint32]bool{}
	trunks := map[uint32]bool{}
	for trunk := binary.BigEndian.Uint32(first[freelistAt:]); trunk != 0; {
		data, err := page(trunk)
		if err != nil {
			return nil, 0, err
		}
		next, leaves, ok := leavesOf(data)
		if !ok || trunks[trunk] {
			return nil, 0, errLayout
		}
		for _, leaf := range leaves {
			free[leaf] = true
		}
		trunks[trunk], trunk = true, next
	}
	return free, int(first[reservedAt]), nil
}
