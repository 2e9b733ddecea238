package audit

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/disk"
)

// registration is the detail of an index record: where a chain was opened or
// closed. The record it names was durable before.
type registration struct {
	Chain      string `json:"chain"`
	Genesis    Digest `json:"genesis"`
	RecordHash Digest `json:"record_hash"`
	Seq        uint64 `json:"seq"`
}

// indexEnd is where the index ended when a record was entered in it.
type indexEnd struct {
	head    Head
	place   place
	segment int
	size    int64
}

// Begin makes the index of a folder of chains, where there is none yet. Whoever notes
// elsewhere that something will be recorded calls it before: from then on a missing
// index is evidence that was removed, and not a process that was killed early.
func Begin(ctx context.Context, root string, keys Keys, now time.Time) error {
	if HasBegun(root) {
		return nil
	}
	_, err := register(ctx, Options{Root: root, Keys: keys}, nil, now)
	return err
}

// HasBegun reports whether root has an index with a signed head, which Begin makes.
// What cannot be looked at has.
func HasBegun(root string) bool {
	_, err := os.Lstat(filepath.Join(root, IndexChain, headFile))
	return !isMissing(err)
}

// register appends records to the installation's index chain and signs its
// new head. Many processes do so, one after the other. It returns where the index
// ends then; from is where it ended for the same caller before, or nil.
func register(ctx context.Context, o Options, from *indexEnd, now time.Time, records ...nacre.Record) (to *indexEnd, err error) {
	dir, keys := filepath.Join(o.Root, IndexChain), o.Keys
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := takeLock(ctx, dir, indexWait)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	folder := &segmented{dir: dir, chain: IndexChain}
	t, err := from.resume(folder, keys)
	if t == nil && err == nil {
		t, err = openTail(folder, keys)
	}
	if err != nil {
		return nil, err
	}
	t.copied = copied{to: o.Elsewhere, first: t.seal.next}
	if t.rotated != "" && t.rotated != hex.EncodeToString(keys.Public()) {
		err = errors.New("the audit keys were rotated: start again with the new ones")
	} else {
		err = t.enter(now, records...)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	to = &indexEnd{head: t.head, place: place{seq: t.seal.next, prev: t.seal.prev}, segment: folder.segment, size: folder.size}
	return to, t.close()
}

// resume goes on where the same process entered the last record, so that what it has
// checked then is not checked again. It returns nil where anybody has entered one
// since, or has begun to.
func (e *indexEnd) resume(folder *segmented, keys Keys) (*tail, error) {
	if e == nil || !e.isLast(folder.dir) {
		return nil, nil
	}
	t := &tail{store: folder, chain: IndexChain, keys: keys, genesis: e.head.Genesis, seal: newSealer(keys.macs[0]), head: e.head}
	t.seal.next, t.seal.prev = e.place.seq, e.place.prev
	if err := folder.open(e.segment); err != nil {
		return nil, err
	}
	if folder.size != e.size {
		return nil, t.close()
	}
	if _, err := folder.file.Seek(folder.size, io.SeekStart); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (e *indexEnd) isLast(dir string) bool {
	head, err := disk.Read(filepath.Join(dir, headFile), maxHead)
	if err != nil || !bytes.Equal(head, e.head.Bytes()) {
		return false
	}
	for _, later := range []string{naming.Segment(e.segment + 1), naming.Torn(e.place.seq)} {
		if _, err := os.Lstat(filepath.Join(dir, later)); !isMissing(err) {
			return false
		}
	}
	return true
}

// enter writes records at the index's end, after its first one where it has none.
func (t *tail) enter(now time.Time, records ...nacre.Record) error {
	if err := t.ensureHead(now); err != nil {
		return err
	}
	var bodies []body
	begins := t.segmentNumber() == 0 || t.seal.next == 0 || t.torn != nil
	if begins {
		b, err := t.openingRecord(now)
		if err != nil {
			return err
		}
		bodies = append(bodies, b)
	}
	for _, r := range records {
		b, err := encode(r)
		if err != nil {
			return err
		}
		bodies = append(bodies, b)
	}
	if len(bodies) == 0 {
		return nil
	}
	if err := t.commit(indexSegmentBytes, now, bodies...); err != nil || !begins {
		return err
	}
	return t.syncNames() // a new index must be found again
}

func registrationRecord(kind nacre.Kind, d registration, now time.Time) (nacre.Record, error) {
	detail, err := json.Marshal(d)
	return nacre.Record{Kind: kind, Time: now, Source: source, Detail: detail}, err
}

// parseEvent reads an index record that tells of another chain.
func parseEvent(e Entry) (event, error) {
	d := event{kind: e.Kind, at: e.Seq}
	var err error
	switch e.Kind {
	case nacre.KindChainOpen, nacre.KindChainClose:
		err = strictUnmarshal(e.Detail, &d.registration)
	case KindChainPrune:
		var c checkpoint
		if err = strictUnmarshal(e.Detail, &c); err == nil {
			err = c.check()
		}
		d.registration, d.cut = registration{c.Chain, c.Genesis, c.RecordHash, c.Seq}, &c
	default:
		return d, fmt.Errorf("%w: a record of kind %s in the index", ErrTampered, e.Kind)
	}
	if err != nil {
		return d, fmt.Errorf("%w: index record %d: %w", ErrTampered, e.Seq, err)
	}
	if !naming.IsChain(d.Chain) || d.Chain == IndexChain {
		return d, fmt.Errorf("%w: index record %d registers chain %.90q", ErrTampered, e.Seq, d.Chain)
	}
	return d, nil
}
