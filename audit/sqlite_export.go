package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/audit/internal/rows"
)

// ExportSQLite writes the chains of a database into root, a folder that is not
// there yet, as [Open] would have written them: line for line the same bytes.
// It may run while a process writes, and sees one moment of the database.
func ExportSQLite(ctx context.Context, path, root string) error {
	return exportDatabase(ctx, path, root, DefaultSegmentBytes)
}

// VerifySQLite checks a database as [VerifyAll] checks a folder. It needs as
// much room in the folder for temporary files as the database has. A chain that is
// being written is ErrUnsealed, like one whose writer died.
func VerifySQLite(ctx context.Context, path string, o VerifyOptions) (report RootReport, err error) {
	dir, err := os.MkdirTemp("", "nacre-verify-")
	if err != nil {
		return RootReport{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root := filepath.Join(dir, "audit")
	if err := ExportSQLite(ctx, path, root); err != nil {
		return RootReport{}, err
	}
	return VerifyAll(root, o)
}

// PruneSQLite prunes a database as [Prune] prunes a folder. The chains are
// judged in a copy beside it, PATH.pruning, which needs as much room. The
// records that go and the checkpoint that names them change in one transaction:
// a removal is whole, or nothing. Where a writer lives, the error is ErrLocked.
// o.Root is not used.
func PruneSQLite(ctx context.Context, path string, o PruneOptions) (list []Pruned, err error) {
	lock, err := takeLockFile(ctx, path+".lock", 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	o.Root = path + ".pruning"
	if err := os.RemoveAll(o.Root); err != nil { // of one that was killed
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Root)) }()
	o.segmentBytes = cmp.Or(o.segmentBytes, DefaultSegmentBytes)
	if o.step == nil {
		o.step = func(string) error { return nil }
	}
	if err := exportDatabase(ctx, path, o.Root, o.segmentBytes); err != nil {
		return nil, err
	}
	if list, err = Prune(ctx, o); err != nil || o.DryRun {
		return list, err
	}
	l, err := rows.OpenLines(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := followPrune(l, o, list); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return list, l.Release()
}

// followPrune does to the rows what was done to the folder.
func followPrune(l *rows.Lines, o PruneOptions, list []Pruned) error {
	tx, err := l.Transaction()
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := dropRows(tx, p); err != nil {
			return err
		}
	}
	if err := addIndexed(tx, o.Root); err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(o.Root, IndexChain, headFile))
	if err != nil {
		return err
	}
	if err := o.step("commit"); err != nil {
		return err
	}
	return l.SetHead(IndexChain, head)
}

// dropRows removes the oldest records of a chain, and its head where nothing is left.
func dropRows(tx *sql.Tx, p Pruned) error {
	_, err := tx.Exec("DELETE FROM line WHERE chain = ?1 AND seq < ?2 + (SELECT min(seq) FROM line WHERE chain = ?1)", p.Chain, int64(p.Records))
	if err == nil && p.Whole {
		_, err = tx.Exec("DELETE FROM head WHERE chain = ?", p.Chain)
	}
	return err
}

// addIndexed adds the records of a folder's index that the database lacks.
func addIndexed(tx *sql.Tx, root string) error {
	var count int64
	if err := tx.QueryRow("SELECT count(*) FROM line WHERE chain = ?", IndexChain).Scan(&count); err != nil {
		return err
	}
	return readLines(filepath.Join(root, IndexChain), func(seq int64, raw []byte) error {
		if seq < count {
			return nil
		}
		_, err := tx.Exec("INSERT INTO line VALUES (?, ?, ?)", IndexChain, seq, raw)
		return err
	})
}

// readLines calls fn for each line of a chain whose first record is there, with its number.
func readLines(dir string, fn func(seq int64, raw []byte) error) error {
	found, err := segments(dir)
	if err != nil {
		return err
	}
	seq := int64(0)
	for segment := found.first; found.last > 0 && segment <= found.last; segment++ {
		if _, err := scanLines(dir, segment, func(_ int, raw []byte) error {
			seq++
			return fn(seq-1, raw)
		}); err != nil {
			return err
		}
	}
	return nil
}

func exportDatabase(ctx context.Context, path, root string, segmentBytes int64) (err error) {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	l, err := rows.OpenLines(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Release()) }()
	if err := l.Freeze(ctx); err != nil {
		return err
	}
	return lay(ctx, frozen{l}, root, segmentBytes)
}

// frozen is one moment of a database.
type frozen struct{ lines *rows.Lines }

// Heads implements [Source].
func (f frozen) Heads(ctx context.Context) (map[string][]byte, error) {
	list, err := f.lines.Select(ctx, "SELECT chain, text FROM head")
	heads := map[string][]byte{}
	for _, head := range list {
		heads[head.Chain] = head.Text
	}
	return heads, err
}

// Lines implements [Source].
func (f frozen) Lines(ctx context.Context, chain string, fn func(seq uint64, line []byte) error) error {
	return f.lines.Each(ctx, chain, fn)
}
