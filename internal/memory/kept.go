package memory

import (
	"context"
	"database/sql"
	"encoding/binary"
	"hash/crc32"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/recall"
)

// What searches rank by is kept in the file, so that the first search of a process need not
// build it anew. Nothing depends on it: what is missing, older or not whole is built.
const (
	// leastKept is how many entries are worth it.
	leastKept = 1000
	// mostBehind is how many changes a kept index is brought forward by; beyond, it is built anew.
	mostBehind = 1000
	keptForm   = 1
	mostSeq    = 1 << 62
)

// keptSchema adds the index that was kept. It holds words of entries, so it goes with the
// first of them that is deleted.
const keptSchema = `
CREATE TABLE memory_index (
    group_name  TEXT PRIMARY KEY,
    change      INTEGER NOT NULL,
    data        BLOB NOT NULL
);
CREATE TRIGGER memory_index_delete AFTER DELETE ON memory_entries
BEGIN
    DELETE FROM memory_index;
END;
`

// pack is the index as it is kept, or nil where it is not worth it. It wants the lock held.
func (l *live) pack() []byte {
	if l.tooMany || len(l.entries) < leastKept {
		return nil
	}
	b := binary.AppendUvarint(nil, keptForm)
	b = binary.AppendUvarint(b, recall.Version)
	b = binary.AppendUvarint(b, uint64(len(l.entries)))
	for i := range l.entries {
		e := &l.entries[i]
		trusted := uint64(0)
		if e.trusted {
			trusted = 1
		}
		b = binary.AppendUvarint(b, uint64(e.seq)<<1|trusted)
		for _, text := range []string{e.id, e.kind, e.superseded} {
			b = recall.AppendString(b, text)
		}
		b = binary.AppendUvarint(b, uint64(max(e.created, 0)))
		b = binary.AppendUvarint(b, uint64(max(e.expires, 0)))
		b = binary.AppendUvarint(b, uint64(len(e.tags)))
		for _, tag := range e.tags {
			b = recall.AppendString(b, tag)
		}
	}
	b, err := recall.Append(b, l.index)
	if err != nil {
		return nil
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// unpack reads what pack wrote into an empty index, or changes nothing that is read later.
func (l *live) unpack(data []byte) bool {
	n := len(data) - crc32.Size
	if n < 0 || crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(data[n:]) {
		return false
	}
	k := recall.ReadKept(data[:n])
	if k.Number(mostSeq) != keptForm || k.Number(mostSeq) != recall.Version {
		return false
	}
	count := k.Count()
	l.entries, l.slots, l.bySeq = make([]indexed, 0, count), make(map[string]int32, count), make(map[int64]int32, count)
	for range count {
		head := k.Number(mostSeq)
		e := indexed{seq: int64(head >> 1), trusted: head&1 == 1, id: k.Text(), kind: typeName(k.Text()), superseded: k.Text()}
		e.created, e.expires = int64(k.Number(mostSeq)), int64(k.Number(mostSeq))
		if tags := k.Count(); tags > 0 {
			e.tags = make([]string, tags)
		}
		for i := range e.tags {
			e.tags[i] = k.Text()
		}
		l.enter(e)
	}
	index, err := recall.Restore(k)
	if err != nil || k.Err() != nil || index.Len() != count || len(l.bySeq) != count {
		return false
	}
	l.index = index
	return true
}

// loadKept takes the index that was kept and brings it forward. False means that there is none, or
// that it is too old or not of these entries.
func loadKept(ctx context.Context, s *ranking, tx database.Session) (bool, error) {
	l := &s.live
	var data sql.RawBytes
	rows, err := tx.QueryContext(ctx, `SELECT change, data FROM memory_index WHERE group_name = ?1 AND (SELECT count(*) FROM memory_changes WHERE change > memory_index.change) <= ?2`,
		string(s.group), mostBehind)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	if !rows.Next() {
		return false, rows.Err()
	}
	if err := rows.Scan(&l.change, &data); err != nil {
		return false, err
	}
	if !l.unpack(data) {
		return false, nil
	}
	if err := rows.Close(); err != nil {
		return false, err
	}
	if err := takeAllLinks(ctx, s, tx); err != nil {
		return false, err
	}
	if caughtUp, err := s.catchUp(ctx, tx); err != nil || !caughtUp {
		return false, err
	}
	var count int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_entries WHERE group_name = ?`, string(s.group)).Scan(&count)
	l.loaded = err == nil && count == l.index.Len()
	return l.loaded, err
}

// keep writes the index to the file, unless an entry has changed since: one that was erased
// meanwhile must not come back. Where it cannot be written, the next process builds it.
func keep(ctx context.Context, s *ranking, change int64, data []byte) {
	_ = s.at.Write(ctx, func(tx database.Session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory_index(group_name, change, data) SELECT ?1, ?2, ?3 WHERE (`+lastChange+`) = ?2
			ON CONFLICT (group_name) DO UPDATE SET change = excluded.change, data = excluded.data`, string(s.group), change, data)
		return err
	})
}
