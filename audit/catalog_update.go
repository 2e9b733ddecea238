package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/disk"
)

// update reads what was added to the chains since the last time, and forgets
// what is gone. The index chain is no part of it.
func (c *Catalog) update(ctx context.Context) error {
	names, err := namesBeside(c.root)
	if err != nil {
		return err
	}
	known, err := c.known(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		dir, err := chainDir(c.root, name)
		if info, statErr := os.Lstat(dir); err != nil || statErr != nil || !info.IsDir() {
			continue // a stranger: Verify reports it
		}
		at := known[name]
		delete(known, name)
		if at.isAll(dir) {
			continue
		}
		err = c.inTransaction(ctx, func(tx *sql.Tx) error { return at.follow(ctx, tx, dir, name) })
		if errors.Is(err, ErrTampered) && at.known { // the catalog or the chain is at fault: reading all anew tells
			return errStale
		}
		if err != nil {
			return fmt.Errorf("chain %s: %w", name, err)
		}
	}
	for gone := range known {
		if err := c.inTransaction(ctx, func(tx *sql.Tx) error { return drop(ctx, tx, gone) }); err != nil {
			return err
		}
	}
	return nil
}

// isAll reports whether nothing was added to a chain, or pruned.
func (at reached) isAll(dir string) bool {
	found, err := segments(dir)
	if err != nil || !at.known || at.first != found.first || at.segment != found.last {
		return false
	}
	info, err := os.Lstat(filepath.Join(dir, segmentName(at.segment)))
	return err == nil && info.Size() == at.offset
}

func (c *Catalog) inTransaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// known is how far each chain is in the catalog.
func (c *Catalog) known(ctx context.Context) (all map[string]reached, err error) {
	rows, err := c.db.QueryContext(ctx, "SELECT chain, first, segment, offset, next, prev FROM progress")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = map[string]reached{}
	for rows.Next() {
		var name string
		var prev []byte
		at := reached{place: place{known: true}}
		if err := rows.Scan(&name, &at.first, &at.segment, &at.offset, &at.seq, &prev); err != nil {
			return nil, err
		}
		if copy(at.prev[:], prev) != len(at.prev) || at.offset < 0 {
			return nil, errStale
		}
		all[name] = at
	}
	return all, rows.Err()
}

func drop(ctx context.Context, tx *sql.Tx, chain string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM entry WHERE chain = ?", chain)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM progress WHERE chain = ?", chain)
	}
	return err
}

// reached is how far a chain is in the catalog.
type reached struct {
	place
	first   int // segment
	segment int
	offset  int64
}

// follow brings one chain up to date.
func (at reached) follow(ctx context.Context, tx *sql.Tx, dir, name string) error {
	found, err := segments(dir)
	if err != nil || found.last == 0 {
		return errors.Join(err, drop(ctx, tx, name))
	}
	if at.segment < found.first || at.segment > found.last { // new, or its beginning was pruned beyond
		if err := drop(ctx, tx, name); err != nil {
			return err
		}
		at = reached{segment: found.first}
	} else if _, err := tx.ExecContext(ctx, "DELETE FROM entry WHERE chain = ? AND segment < ?", name, found.first); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	for ; ; at.segment, at.offset = at.segment+1, 0 {
		if err := at.read(ctx, insert, dir, name); err != nil {
			return errors.Join(err, insert.Close())
		}
		if at.segment == found.last {
			break
		}
	}
	if err := insert.Close(); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?)",
		name, found.first, at.segment, at.offset, int64(at.seq), at.prev[:])
	return err
}

// read takes the rest of a segment.
func (at *reached) read(ctx context.Context, insert *sql.Stmt, dir, chain string) (err error) {
	at.offset, err = scanFrom(filepath.Join(dir, segmentName(at.segment)), at.offset, func(raw []byte, offset int64) error {
		e, err := decode(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		if err := at.step(e); err != nil {
			return err
		}
		_, err = insert.ExecContext(ctx, chain, int64(e.Seq), at.segment, offset, len(raw), nanos(e.Time), string(e.Group), string(e.Session),
			string(e.Kind), e.Outcome, e.Reason, capabilityOf(e))
		return err
	})
	return err
}

// scanFrom calls fn for each whole line from an offset on, and returns where
// the next one begins.
func scanFrom(path string, offset int64, fn func(raw []byte, offset int64) error) (int64, error) {
	f, err := disk.OpenRegular(path)
	if err != nil {
		return offset, err
	}
	defer func() { _ = f.Close() }() // only read
	if size, err := f.Seek(0, io.SeekEnd); err != nil || size < offset {
		return offset, errors.Join(err, errStale)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	_, err = scan(f, filepath.Base(path), func(_ int, raw []byte) error {
		if err := fn(raw, offset); err != nil {
			return err
		}
		offset += int64(len(raw)) + 1
		return nil
	})
	return offset, err
}

// spotReader reads records where the catalog says that they stand.
type spotReader struct {
	root string
	path string
	file *os.File
}

func (r *spotReader) close() {
	if r.file != nil {
		_ = r.file.Close() // only read
	}
}

func (r *spotReader) read(s spot) (Entry, error) {
	dir, err := chainDir(r.root, s.chain)
	if err != nil || s.size <= 0 || s.size > MaxLine || s.offset < 0 || s.segment < 1 || s.segment > maxSegments {
		return Entry{}, errStale
	}
	if path := filepath.Join(dir, segmentName(s.segment)); path != r.path {
		r.close()
		if r.file, err = disk.OpenRegular(path); err != nil {
			r.path = ""
			return Entry{}, err
		}
		r.path = path
	}
	raw := make([]byte, s.size)
	if _, err := r.file.ReadAt(raw, s.offset); err != nil {
		return Entry{}, errors.Join(errStale, err)
	}
	e, err := decode(raw)
	if err != nil || e.Seq != s.seq || nanos(e.Time) != s.t {
		return Entry{}, errors.Join(errStale, err)
	}
	return e, nil
}
