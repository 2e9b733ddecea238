package audit

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nacre-dev/nacre"
)

// sqliteVersion is the user_version of a database of chains.
const sqliteVersion = 1

// sqliteSchema holds the lines of segments as they are, and the heads.
const sqliteSchema = `
CREATE TABLE line (chain TEXT, seq INTEGER, text BLOB, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE TABLE head (chain TEXT PRIMARY KEY, text BLOB) WITHOUT ROWID;
`

// OpenSQLite opens a chain in a SQLite database instead of a folder, for
// embedders who want one file: the same records, hashes, heads and index, and
// the same guarantees of [Chain]. o.Root is not used. One process writes the
// file at a time; another gets ErrLocked. [VerifySQLite] and [PruneSQLite] take
// the database as it is, and [ExportSQLite] makes of it the folder that
// verify_audit.py takes.
func OpenSQLite(ctx context.Context, path string, o Options) (*Chain, error) {
	o.Root = filepath.Dir(path)
	if _, err := o.check(); err != nil {
		return nil, err
	}
	o = o.sized()
	lock, err := takeLockFile(ctx, path+".lock", writerWait)
	if err != nil {
		return nil, err
	}
	db, err := openLines(ctx, path)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	t, err := db.openTail(o.Chain, o.Keys)
	if err == nil {
		err = begin(ctx, t, o)
	}
	if err != nil {
		return nil, errors.Join(err, db.release(), lock.Release())
	}
	return start(o, path, lock, t), nil
}

// lineTable is the database of one writer. What is written waits in a
// transaction until commit.
type lineTable struct {
	db *sql.DB
	tx *sql.Tx
}

func openLines(ctx context.Context, path string) (*lineTable, error) {
	db, err := openSQLite(path, "synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	if err = schematic(ctx, db, sqliteVersion, sqliteSchema); err == nil {
		_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit database %s: %w", path, err), db.Close())
	}
	return &lineTable{db: db}, nil
}

// ensure begins a transaction where there is none.
func (l *lineTable) ensure() (*sql.Tx, error) {
	var err error
	if l.tx == nil {
		l.tx, err = l.db.BeginTx(context.Background(), nil) // ends with commit or release
	}
	return l.tx, err
}

// commit makes durable what was written.
func (l *lineTable) commit() error {
	if l.tx == nil {
		return nil
	}
	tx := l.tx
	l.tx = nil
	return tx.Commit()
}

func (l *lineTable) setHead(chain string, line []byte) error {
	tx, err := l.ensure()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT OR REPLACE INTO head VALUES (?, ?)", chain, line); err != nil {
		return err
	}
	return l.commit()
}

func (l *lineTable) release() error {
	var err error
	if l.tx != nil {
		err = l.tx.Rollback()
	}
	return errors.Join(err, l.db.Close())
}

// writeRows writes lines as rows. Where a segment would be full, a new one is
// counted, so that heads are signed as often as with files.
func (t *tail) writeRows(lines []byte, segmentBytes int64) error {
	tx, err := t.db.ensure()
	if err != nil {
		return err
	}
	insert, err := tx.Prepare("INSERT INTO line VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(lines) {
		if _, err := insert.Exec(t.chain, int64(t.row), line[:len(line)-1]); err != nil {
			return errors.Join(err, insert.Close())
		}
		t.row++
		t.size += int64(len(line))
	}
	if t.segment == 0 || t.size >= segmentBytes {
		t.segment, t.size = t.segment+1, 0
	}
	return insert.Close()
}

// openTail finds the end of a chain and checks it like that of a folder.
func (l *lineTable) openTail(chain string, keys Keys) (*tail, error) {
	t := newTail("", chain, keys)
	t.db, t.seal.prev = l, t.genesis
	if err := t.findRows(); err != nil {
		return nil, fmt.Errorf("chain %s cannot go on: %w", chain, err)
	}
	return t, nil
}

func (t *tail) findRows() error {
	var first, count, size sql.NullInt64
	err := t.db.db.QueryRow("SELECT min(seq), max(seq) + 1, sum(length(text) + 1) FROM line WHERE chain = ?", t.chain).Scan(&first, &count, &size)
	if err != nil {
		return err
	}
	var raw []byte
	err = t.db.db.QueryRow("SELECT text FROM head WHERE chain = ?", t.chain).Scan(&raw)
	if err == nil {
		if t.head, err = ParseHead(raw); err == nil {
			err = t.keys.known().verify(t.head, 0, end)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	switch {
	case err != nil:
		return err
	case t.head.V != 0 && (t.head.Chain != t.chain || int64(t.head.Seq) >= count.Int64):
		return fmt.Errorf("%w: it ends before its signed head at %d", ErrTampered, t.head.Seq)
	case t.head.V == 0 && (count.Int64 > maxUnsigned || first.Int64 > 0):
		return fmt.Errorf("%w: its head is missing", ErrTampered)
	case count.Int64 == 0:
		return nil
	}
	t.segment, t.total, t.row = 1, size.Int64, uint64(count.Int64)
	return t.checkRows(uint64(first.Int64))
}

// checkRows checks the first record, the one that is signed, and the last. That what
// was before the first one was pruned is for the index to know, and Verify.
func (t *tail) checkRows(from uint64) error {
	first, err := t.rowAt(from)
	if err != nil {
		return err
	}
	last, err := t.rowAt(t.row - 1)
	if err != nil {
		return err
	}
	if t.genesis = first.PrevHash; from > 0 {
		t.genesis = t.head.Genesis
	}
	if t.head.V != 0 {
		signed, err := t.rowAt(t.head.Seq)
		if err != nil {
			return err
		}
		if signed.RecordHash != t.head.RecordHash || t.head.Genesis != t.genesis {
			return fmt.Errorf("%w: record %d is not the one in the signed head", ErrTampered, t.head.Seq)
		}
	}
	t.seal.next, t.seal.prev = t.row, last.RecordHash
	return nil
}

func (t *tail) rowAt(seq uint64) (Entry, error) {
	var raw []byte
	if err := t.db.db.QueryRow("SELECT text FROM line WHERE chain = ? AND seq = ?", t.chain, int64(seq)).Scan(&raw); err != nil {
		return Entry{}, fmt.Errorf("%w: record %d: %w", ErrTampered, seq, err)
	}
	e, err := decode(raw)
	if err == nil && (e.Seq != seq || !t.isOurs(e)) {
		err = fmt.Errorf("record %d was not written with this key", seq)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrTampered, err)
	}
	return e, nil
}

// register enters a record in the index, which stands in the same database.
func (l *lineTable) register(keys Keys, r nacre.Record) error {
	if err := l.commit(); err != nil {
		return err
	}
	t, err := l.openTail(IndexChain, keys)
	if err != nil {
		return err
	}
	return t.enter(r.Time, r)
}
