package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/rows"
)

// OpenSQLite opens a chain in a SQLite database instead of a folder, for embedders who want one
// file. Records, hashes, heads, index and guarantees are those of [Chain]. o.Root is not used. One
// process writes the file at a time; another gets ErrLocked. [VerifySQLite] and [PruneSQLite] take
// the database as it is, and [ExportSQLite] makes of it the folder that verify_audit.py takes.
func OpenSQLite(ctx context.Context, path string, o Options) (*Chain, error) {
	o.Root = filepath.Dir(path)
	if _, err := o.check(); err != nil {
		return nil, err
	}
	if o.Elsewhere != nil {
		return nil, errors.New("a chain in a database is kept in one place: leave Options.Elsewhere out")
	}
	o = o.sized()
	lock, err := takeLockFile(ctx, path+".lock", writerWait)
	if err != nil {
		return nil, err
	}
	lines, err := rows.OpenLines(ctx, path)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	t, err := openRows(lines, o.Chain, o.Keys)
	if err == nil {
		err = begin(ctx, t, o)
	}
	if err != nil {
		return nil, errors.Join(err, lines.Release(), lock.Release())
	}
	return start(o, path, lock, t), nil
}

// tabled is a chain in rows of a database. It counts segments as a folder would have them, so that
// heads are signed as often.
type tabled struct {
	lines   *rows.Lines
	chain   string
	next    uint64 // seq of the next row
	segment int
	size    int64
}

func (s *tabled) write(lines []byte, segmentBytes int64) error {
	n, err := s.lines.Add(s.chain, s.next, lines)
	if err != nil {
		return err
	}
	s.next += uint64(n)
	if s.size += int64(len(lines)); s.segment == 0 || s.size >= segmentBytes {
		s.segment, s.size = s.segment+1, 0
	}
	return nil
}

func (s *tabled) sync() error { return s.lines.Commit() }

// syncNames has nothing to do: the database has its name.
func (s *tabled) syncNames() error { return nil }

func (s *tabled) putHead(line []byte, settle func() error) error {
	if settle != nil {
		if err := settle(); err != nil {
			return err
		}
	}
	return s.lines.SetHead(s.chain, line)
}

func (s *tabled) segmentNumber() int { return s.segment }

// enterIndex enters a record in the index of the same database.
func (s *tabled) enterIndex(_ context.Context, o Options, r nacre.Record, _ time.Time) error {
	if err := s.lines.Commit(); err != nil {
		return err
	}
	t, err := openRows(s.lines, IndexChain, o.Keys)
	if err != nil {
		return err
	}
	return t.enter(r.Time, r)
}

func (s *tabled) close() error { return s.lines.Release() }

// openRows finds the end of a chain and checks it like that of a folder.
func openRows(lines *rows.Lines, chain string, keys Keys) (*tail, error) {
	at := &tabled{lines: lines, chain: chain}
	t := newTail(at, chain, keys)
	t.seal.prev = t.genesis
	if err := t.findRows(at); err != nil {
		return nil, fmt.Errorf("chain %s cannot go on: %w", chain, err)
	}
	return t, nil
}

func (t *tail) findRows(in *tabled) error {
	found, err := in.lines.Extent(t.chain)
	if err != nil {
		return err
	}
	raw, err := in.lines.Head(t.chain)
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
	case t.head.V != 0 && (t.head.Chain != t.chain || t.head.Seq >= found.Next):
		return fmt.Errorf("%w: it ends before its signed head at %d", ErrTampered, t.head.Seq)
	case t.head.V == 0 && (found.Next > maxUnsigned || found.First > 0):
		return fmt.Errorf("%w: its head is missing", ErrTampered)
	case found.Next == 0:
		return nil
	}
	in.segment, in.next, t.total = 1, found.Next, found.Bytes
	return t.checkRows(in, found)
}

// checkRows checks the first record, the one that is signed, and the last. That what
// was before the first one was pruned is for the index to know, and Verify.
func (t *tail) checkRows(in *tabled, found rows.Extent) error {
	first, err := t.rowAt(in, found.First)
	if err != nil {
		return err
	}
	last, err := t.rowAt(in, found.Next-1)
	if err != nil {
		return err
	}
	if t.genesis = first.PrevHash; found.First > 0 {
		t.genesis = t.head.Genesis
	}
	if t.head.V != 0 {
		signed, err := t.rowAt(in, t.head.Seq)
		if err != nil {
			return err
		}
		if signed.RecordHash != t.head.RecordHash || t.head.Genesis != t.genesis {
			return fmt.Errorf("%w: record %d is not the one in the signed head", ErrTampered, t.head.Seq)
		}
	}
	t.seal.next, t.seal.prev = found.Next, last.RecordHash
	return nil
}

func (t *tail) rowAt(in *tabled, seq uint64) (Entry, error) {
	raw, err := in.lines.Line(t.chain, seq)
	if err != nil {
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
