package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// maxUnsigned is how many records a chain may have before its first head: what
// one interrupted beginning writes.
const maxUnsigned = 2

// source is what the chain's own records name as theirs.
const source = "audit"

// opening is the detail of a chain.open record in its own chain.
type opening struct {
	Chain   string `json:"chain"`
	Genesis Digest `json:"genesis"`
	// MACKey names the MAC key from here on, where it is not the first one.
	MACKey    *Digest `json:"mac_key,omitempty"`
	PublicKey string  `json:"public_key"`
	// Torn tells of the unfinished bytes that a crash left before this record.
	Torn *torn `json:"torn,omitempty"`
}

type torn struct {
	Bytes  int    `json:"bytes"`
	SHA256 Digest `json:"sha256"`
}

// tail is the end of a chain, held under its lock: where the next record goes.
type tail struct {
	dir     string
	chain   string
	keys    Keys
	genesis Digest
	seal    *sealer
	head    Head  // last head.json; zero if there is none
	torn    *torn // to be told by the next chain.open record
	total   int64 // bytes of all segments
	macs    []*sealer
	indexed *indexEnd // where this chain's own entry in the index ended it
	rotated string    // of the index: the key that its last segment introduces, if any

	segment int // number of the open one; 0 before the first
	size    int64
	file    segmentFile
	db      *lineTable // instead of segments, for OpenSQLite
	row     uint64     // seq of the next row there
	wrap    func(segmentFile) segmentFile
}

// segmentFile is what a writer needs of a segment.
type segmentFile interface {
	io.WriteSeeker
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// newTail is the end of a chain that has no record yet.
func newTail(dir, chain string, keys Keys) *tail {
	t := &tail{dir: dir, chain: chain, keys: keys, seal: newSealer(keys.macs[0])}
	_, _ = rand.Read(t.genesis[:]) // never fails
	for _, mac := range keys.macs {
		t.macs = append(t.macs, newSealer(mac))
	}
	return t
}

// openTail finds the end of the chain and checks what stands there: the last
// segment line by line with its MACs, and that it reaches the signed head. A
// torn last line is moved aside. On a new chain, segment is 0.
func openTail(dir, chain string, keys Keys) (*tail, error) {
	t := newTail(dir, chain, keys)
	found, err := segments(dir)
	if err != nil {
		return nil, err
	}
	t.total = found.size
	t.head, err = readHead(filepath.Dir(dir), chain)
	if err == nil {
		err = keys.known().verify(t.head, 0, end)
	}
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if err := t.find(found); err != nil {
		return nil, fmt.Errorf("chain %s cannot go on: %w", chain, err)
	}
	return t, nil
}

func (t *tail) find(found span) error {
	segments := found.last
	if err := t.readGenesis(found); err != nil {
		return err
	}
	if segments == 0 {
		if t.head.V != 0 {
			return fmt.Errorf("%w: there is a head but no record", ErrTampered)
		}
		return nil
	}
	at, tornBytes, err := t.scan(segments)
	if err != nil {
		return err
	}
	if !at.known && segments > found.first { // the crash came before the segment's first record
		if at, err = t.scanWhole(segments - 1); err != nil {
			return err
		}
	}
	if t.head.V != 0 && t.head.Seq >= at.seq {
		return fmt.Errorf("%w: it ends at record %d, before its signed head at %d", ErrTampered, int64(at.seq)-1, t.head.Seq)
	}
	if t.head.V == 0 && at.seq > maxUnsigned {
		return fmt.Errorf("%w: its head.json is missing", ErrTampered)
	}
	t.seal.next, t.seal.prev = at.seq, at.prev
	if err := t.open(segments); err != nil {
		return err
	}
	if err := t.moveAside(tornBytes); err != nil {
		return errors.Join(err, t.file.Close())
	}
	if !at.known { // nothing whole was ever written: the chain is new
		t.seal.prev = t.genesis
	}
	return nil
}

// readGenesis takes the genesis from record 0, or makes one for a new chain.
func (t *tail) readGenesis(found span) error {
	t.seal.prev = t.genesis
	switch {
	case found.last == 0:
		return nil
	case found.first > 1 && t.head.V == 0:
		return fmt.Errorf("%w: segment %s is missing", ErrTampered, segmentName(1))
	case found.first > 1: // pruned: that it was is for the index to know, and Verify
		t.genesis = t.head.Genesis
		return nil
	}
	stop := errors.New("stop")
	_, err := scanLines(t.dir, 1, func(_ int, raw []byte) error {
		e, err := decode(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		t.genesis = e.PrevHash
		return stop
	})
	if errors.Is(err, stop) {
		err = nil
	}
	if err == nil && t.head.V != 0 && t.head.Genesis != t.genesis {
		err = fmt.Errorf("%w: head and records have different beginnings", ErrTampered)
	}
	return err
}

func (t *tail) scan(segment int) (place, []byte, error) {
	var at place
	rest, err := scanLines(t.dir, segment, func(_ int, raw []byte) error {
		e, err := decode(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		if !t.isOurs(e) {
			return fmt.Errorf("%w: record %d was not written with this key", ErrTampered, e.Seq)
		}
		if e.Kind == KindKeyRotate && t.chain == IndexChain {
			var d rotation
			if err := strictUnmarshal(e.Detail, &d); err != nil {
				return fmt.Errorf("%w: record %d: %w", ErrTampered, e.Seq, err)
			}
			t.rotated = d.Next
		}
		if t.head.V != 0 && e.Seq == t.head.Seq && e.RecordHash != t.head.RecordHash {
			return fmt.Errorf("%w: record %d is not the one in the signed head", ErrTampered, e.Seq)
		}
		return at.step(e)
	})
	return at, rest, err
}

// isOurs checks the MAC by the keys there are: where a segment begins, it is
// not known yet which of them the chain named.
func (t *tail) isOurs(e Entry) bool {
	for _, sealer := range t.macs {
		if mac := sealer.sum(e.RecordHash); hmac.Equal(mac[:], e.MAC[:]) {
			return true
		}
	}
	return false
}

func (t *tail) scanWhole(segment int) (place, error) {
	at, rest, err := t.scan(segment)
	if err == nil && (len(rest) > 0 || !at.known) {
		err = fmt.Errorf("%w: segment %s is incomplete though another follows", ErrTampered, segmentName(segment))
	}
	return at, err
}

func (t *tail) open(segment int) error {
	f, err := os.OpenFile(filepath.Join(t.dir, segmentName(segment)), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t.file, t.segment, t.size = t.wrapped(f), segment, info.Size()
	return nil
}

// moveAside keeps what a crash tore off in a file of its own, cuts it off the
// segment, and remembers to tell. What is there was written before, so it is
// synced before anything is built on it.
func (t *tail) moveAside(rest []byte) error {
	path := filepath.Join(t.dir, tornName(t.seal.next))
	if len(rest) == 0 { // an earlier repair may have crashed before it could tell
		kept, err := disk.Read(path, MaxLine)
		if err == nil {
			t.torn = &torn{len(kept), sha256.Sum256(kept)}
		} else if !isMissing(err) {
			return err
		}
		_, err = t.file.Seek(t.size, 0)
		if t.head.V != 0 && t.head.Seq+1 == t.seal.next { // only what is durable was signed
			return err
		}
		return errors.Join(err, t.file.Sync())
	}
	if err := replaceFile(path, rest); err != nil {
		return err
	}
	if err := disk.SyncDir(t.dir); err != nil {
		return err
	}
	t.size -= int64(len(rest))
	t.total -= int64(len(rest))
	t.torn = &torn{len(rest), sha256.Sum256(rest)}
	err := t.file.Truncate(t.size)
	if err == nil {
		_, err = t.file.Seek(t.size, 0)
	}
	return errors.Join(err, t.file.Sync())
}

// write appends whole lines and goes on in a new segment where the last one is full.
func (t *tail) write(lines []byte, segmentBytes int64) error {
	if t.db != nil {
		return t.writeRows(lines, segmentBytes)
	}
	if t.file == nil || t.size >= segmentBytes {
		if err := t.rotate(); err != nil {
			return err
		}
	}
	n, err := t.file.Write(lines)
	t.size += int64(n)
	return err
}

// wrapped lets a test stand between the writer and its file.
func (t *tail) wrapped(f *os.File) segmentFile {
	if t.wrap != nil {
		return t.wrap(f)
	}
	return f
}

func (t *tail) rotate() error {
	if t.segment >= maxSegments {
		return fmt.Errorf("chain %s has %d segments, the most there can be", t.chain, t.segment)
	}
	if t.file != nil {
		if err := errors.Join(t.file.Sync(), t.file.Close()); err != nil {
			return err
		}
	}
	path := filepath.Join(t.dir, segmentName(t.segment+1))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	t.file, t.segment, t.size = t.wrapped(f), t.segment+1, 0
	if t.segment == 1 {
		return nil // a new chain counts once syncNames was called
	}
	return disk.SyncDir(t.dir)
}

// writeHead signs that the chain reaches the record and puts it in head.json.
// Only what is durable may be signed.
func (t *tail) writeHead(seq uint64, hash Digest, state HeadState, now time.Time) error {
	return t.signOff(place{seq: seq + 1, prev: hash}, state, now, nil)
}

// syncSigned makes durable what was written up to a place, and puts a head that signs
// it in head.json.
func (t *tail) syncSigned(to place, state HeadState, now time.Time) error {
	return t.signOff(to, state, now, t.sync)
}

// signOff signs that the chain reaches the place, and settles what is signed beside
// the head's own bytes. The head takes its name when both are durable.
func (t *tail) signOff(to place, state HeadState, now time.Time, settle func() error) error {
	h := signHead(Head{Chain: t.chain, Genesis: t.genesis, Seq: to.seq - 1, RecordHash: to.prev, State: state}, t.keys, now)
	if err := t.putHead(h, settle); err != nil {
		return err
	}
	t.head = h
	return nil
}

func (t *tail) putHead(h Head, settle func() error) error {
	if t.db == nil {
		return replaceFileWith(filepath.Join(t.dir, headFile), h.Bytes(), settle)
	}
	if settle != nil {
		if err := settle(); err != nil {
			return err
		}
	}
	return t.db.setHead(t.chain, h.Bytes())
}

// ensureHead signs what a beginning that was interrupted left without a head.
func (t *tail) ensureHead(now time.Time) error {
	if t.head.V != 0 || t.seal.next == 0 {
		return nil
	}
	return t.writeHead(t.seal.next-1, t.seal.prev, HeadOpen, now)
}

// openingRecord is the chain.open record that belongs at the tail now.
func (t *tail) openingRecord(now time.Time) (body, error) {
	detail, err := json.Marshal(opening{
		Chain: t.chain, Genesis: t.genesis, MACKey: t.keys.macName(), PublicKey: hex.EncodeToString(t.keys.Public()), Torn: t.torn,
	})
	if err != nil {
		return body{}, err
	}
	return encode(nacre.Record{Kind: nacre.KindChainOpen, Time: now, Source: source, Detail: detail})
}

// commit writes records, and makes them durable with a head that signs them.
func (t *tail) commit(segmentBytes int64, now time.Time, records ...body) error {
	var lines bytes.Buffer
	for _, b := range records {
		lines.Write(t.seal.seal(nil, b))
	}
	if err := t.write(lines.Bytes(), segmentBytes); err != nil {
		return err
	}
	return t.syncSigned(place{seq: t.seal.next, prev: t.seal.prev}, HeadOpen, now)
}

func (t *tail) sync() error {
	if t.db != nil {
		return t.db.commit()
	}
	return t.file.Sync()
}

// syncNames makes the names of new files durable.
func (t *tail) syncNames() error {
	if t.db != nil {
		return nil
	}
	return atOnce(func() error { return disk.SyncDir(t.dir) }, func() error { return disk.SyncDir(filepath.Dir(t.dir)) })
}

func (t *tail) close() error {
	if t.db != nil {
		return t.db.release()
	}
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// Read gives each record of a chain to fn, in order. It checks each line's form
// and its link, not the signatures: that is Verify's. An unfinished last line,
// such as one being written, is left out. An error of fn ends the reading and
// is returned.
func Read(root, chain string, fn func(Entry) error) error {
	dir, err := chainDir(root, chain)
	if err != nil {
		return err
	}
	found, err := segments(dir)
	if err != nil {
		return fmt.Errorf("chain %s: %w", chain, err)
	}
	var at place
	for segment := found.first; found.last > 0 && segment <= found.last; segment++ {
		rest, err := scanLines(dir, segment, func(_ int, raw []byte) error {
			e, err := decode(raw)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrTampered, err)
			}
			if err := at.step(e); err != nil {
				return err
			}
			return fn(e)
		})
		if err != nil {
			return fmt.Errorf("chain %s: %w", chain, err)
		}
		if len(rest) > 0 && segment < found.last {
			return fmt.Errorf("chain %s: %w: segment %s ends in the middle of a line", chain, ErrTampered, segmentName(segment))
		}
	}
	if found.last == 0 {
		return fmt.Errorf("chain %s: %w", chain, errors.New("no records"))
	}
	return nil
}
