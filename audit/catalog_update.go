package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/audit/internal/rows"
	"github.com/nacre-dev/nacre/internal/canonical"
	"github.com/nacre-dev/nacre/internal/disk"
)

// together is how many chains are written at once: each writing costs as much as a chain with few records.
const together = 256

// update reads what was added to the chains since the last time, and forgets what is gone. The
// index chain is no part of it, but says of which chains that can be.
func (c *Catalog) update(ctx context.Context) error {
	index, names, err := c.due(ctx)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, together) {
		if err := c.inTransaction(ctx, func(tx *sql.Tx) error { return c.followAll(ctx, tx, some) }); err != nil {
			return err
		}
	}
	return c.inTransaction(ctx, func(tx *sql.Tx) error { return index.keep(ctx, tx, IndexChain) })
}

func (c *Catalog) followAll(ctx context.Context, tx *sql.Tx, names []string) error {
	for _, name := range names {
		dir, err := chainDir(c.root, name)
		if info, statErr := os.Lstat(dir); err != nil || statErr == nil && !info.IsDir() {
			continue // a stranger: Verify reports it
		}
		if err := follow(ctx, tx, dir, name); err != nil {
			return fmt.Errorf("chain %s: %w", name, err)
		}
	}
	return nil
}

// due are the chains that may be others than they were: those that the index told of since the
// last time, and those that were not closed then. The first time, and without an index, all are.
func (c *Catalog) due(ctx context.Context) (index reached, names []string, err error) {
	err = c.inTransaction(ctx, func(tx *sql.Tx) (err error) {
		if index, err = reachedBy(ctx, tx, IndexChain); err != nil {
			return err
		}
		if !index.known {
			names, err = namesBeside(c.root)
			return err
		}
		moving, err := tx.QueryContext(ctx, "SELECT chain FROM progress WHERE moves")
		for name := ""; err == nil && moving.Next(); names = append(names, name) {
			err = moving.Scan(&name)
		}
		if err == nil {
			err = errors.Join(moving.Err(), moving.Close())
		}
		return err
	})
	if err == nil {
		err = index.walk(filepath.Join(c.root, IndexChain), func(e Entry, _ int64, _ int) error {
			names = append(names, canonical.Text(e.Detail, "chain"))
			return ctx.Err()
		})
	}
	slices.Sort(names)
	return index, slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == IndexChain }), err
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
	moves   bool // it may go on, or lose segments, without a word in the index
}

func reachedBy(ctx context.Context, tx *sql.Tx, chain string) (at reached, err error) {
	var prev []byte
	err = tx.QueryRowContext(ctx, "SELECT first, segment, offset, next, prev, moves FROM progress WHERE chain = ?", chain).
		Scan(&at.first, &at.segment, &at.offset, &at.seq, &prev, &at.moves)
	if errors.Is(err, sql.ErrNoRows) {
		return reached{}, nil
	}
	if at.known = true; err == nil && (copy(at.prev[:], prev) != len(at.prev) || at.offset < 0) {
		err = errStale
	}
	return at, err
}

// keep says how far a chain is in the catalog; one that was never there is not.
func (at reached) keep(ctx context.Context, tx *sql.Tx, chain string) error {
	if before, err := reachedBy(ctx, tx, chain); err != nil || before == at {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?, ?)", chain, at.first, at.segment, at.offset, int64(at.seq), at.prev[:], at.moves)
	return err
}

// follow brings one chain up to date.
func follow(ctx context.Context, tx *sql.Tx, dir, name string) error {
	head, headErr := readHead(filepath.Dir(dir), name) // before the records: they may go on meanwhile
	moves := headErr != nil || head.State != HeadClosed || hasWriter(dir)
	at, err := reachedBy(ctx, tx, name)
	if err != nil {
		return err
	}
	found, err := segments(dir)
	if isMissing(err) || err == nil && (found.last == 0 || at.segment < found.first || at.segment > found.last) { // gone, new, or pruned beyond
		at, err = reached{}, drop(ctx, tx, name)
	} else if err == nil && at.first != found.first {
		_, err = tx.ExecContext(ctx, "DELETE FROM entry WHERE chain = ? AND segment < ?", name, found.first)
	}
	if err != nil || found.last == 0 {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	err = at.walk(dir, func(e Entry, offset int64, size int) error {
		_, err := insert.ExecContext(ctx, name, int64(e.Seq), at.segment, offset, size, rows.Nanos(e.Time), string(e.Group), string(e.Session),
			string(e.Kind), e.Outcome, e.Reason, capabilityOf(e))
		return err
	})
	if err = errors.Join(err, insert.Close()); err != nil {
		return err
	}
	at.first, at.moves = found.first, moves
	return at.keep(ctx, tx, name)
}

// walk takes the rest of a chain.
func (at *reached) walk(dir string, take func(e Entry, offset int64, size int) error) error {
	known := at.known
	found, err := segments(dir)
	if isMissing(err) {
		return nil
	}
	for at.segment = max(at.segment, found.first); err == nil && found.last > 0; at.segment, at.offset = at.segment+1, 0 {
		err = at.walkSegment(filepath.Join(dir, naming.Segment(at.segment)), take)
		if err != nil || at.segment >= found.last {
			break
		}
	}
	if errors.Is(err, ErrTampered) && known {
		return errStale // the catalog or the chain is at fault: reading all anew tells
	}
	return err
}

func (at *reached) walkSegment(path string, take func(e Entry, offset int64, size int) error) error {
	f, err := disk.OpenRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if size, err := f.Seek(0, io.SeekEnd); err != nil || size < at.offset {
		return errors.Join(err, errStale)
	}
	if _, err := f.Seek(at.offset, io.SeekStart); err != nil {
		return err
	}
	_, err = scan(f, filepath.Base(path), func(_ int, raw []byte) error {
		e, err := decode(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		if err := errors.Join(at.step(e), take(e, at.offset, len(raw))); err != nil {
			return err
		}
		at.offset += int64(len(raw)) + 1
		return nil
	})
	return err
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

func (r *spotReader) read(s rows.Spot) (Entry, error) {
	dir, err := chainDir(r.root, s.Chain)
	if err != nil || s.Size <= 0 || s.Size > MaxLine || s.Offset < 0 || s.Segment < 1 || s.Segment > maxSegments {
		return Entry{}, errStale
	}
	if path := filepath.Join(dir, naming.Segment(s.Segment)); path != r.path {
		r.close()
		if r.file, err = disk.OpenRegular(path); err != nil {
			r.path = ""
			return Entry{}, err
		}
		r.path = path
	}
	raw := make([]byte, s.Size)
	if _, err := r.file.ReadAt(raw, s.Offset); err != nil {
		return Entry{}, errors.Join(errStale, err)
	}
	e, err := decode(raw)
	if err != nil || e.Seq != s.Seq || rows.Nanos(e.Time) != s.Time {
		return Entry{}, errors.Join(errStale, err)
	}
	return e, nil
}
