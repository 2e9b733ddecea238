package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/naming"
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
	store
	chain   string
	keys    Keys
	genesis Digest
	seal    *sealer
	head    Head  // the last one; zero if there is none
	torn    *torn // to be told by the next chain.open record
	total   int64 // bytes of all lines
	macs    []*sealer
	rotated string // of the index: the key that its last segment introduces, if any
	copied  copied
}

// newTail is the end of a chain that has no record yet.
func newTail(at store, chain string, keys Keys) *tail {
	t := &tail{store: at, chain: chain, keys: keys, seal: newSealer(keys.macs[0])}
	_, _ = rand.Read(t.genesis[:]) // never fails
	for _, mac := range keys.macs {
		t.macs = append(t.macs, newSealer(mac))
	}
	return t
}

// openTail finds the end of the chain and checks what stands there: the last
// segment line by line with its MACs, and that it reaches the signed head. A
// torn last line is moved aside. On a new chain, segment is 0.
func openTail(folder *segmented, keys Keys) (*tail, error) {
	t := newTail(folder, folder.chain, keys)
	found, err := segments(folder.dir)
	if err != nil {
		return nil, err
	}
	t.total = found.size
	t.head, err = readHead(filepath.Dir(folder.dir), folder.chain)
	if err == nil {
		err = keys.known().verify(t.head, 0, end)
	}
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if err := t.find(folder, found); err != nil {
		return nil, fmt.Errorf("chain %s cannot go on: %w", folder.chain, err)
	}
	return t, nil
}

func (t *tail) find(in *segmented, found span) error {
	segments := found.last
	if err := t.readGenesis(in.dir, found); err != nil {
		return err
	}
	if segments == 0 {
		if t.head.V != 0 {
			return fmt.Errorf("%w: there is a head but no record", ErrTampered)
		}
		return nil
	}
	at, tornBytes, err := t.scan(in.dir, segments)
	if err != nil {
		return err
	}
	if !at.known && segments > found.first { // the crash came before the segment's first record
		if at, err = t.scanWhole(in.dir, segments-1); err != nil {
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
	if err := in.open(segments); err != nil {
		return err
	}
	signed := t.head.V != 0 && t.head.Seq+1 == at.seq // only what is durable was signed
	if t.torn, err = in.moveAside(at.seq, tornBytes, signed); err != nil {
		return errors.Join(err, in.close())
	}
	t.total -= int64(len(tornBytes))
	if !at.known { // nothing whole was ever written: the chain is new
		t.seal.prev = t.genesis
	}
	return nil
}

// readGenesis takes the genesis from record 0, or makes one for a new chain.
func (t *tail) readGenesis(dir string, found span) error {
	t.seal.prev = t.genesis
	switch {
	case found.last == 0:
		return nil
	case found.first > 1 && t.head.V == 0:
		return fmt.Errorf("%w: segment %s is missing", ErrTampered, naming.Segment(1))
	case found.first > 1: // pruned: that it was is for the index to know, and Verify
		t.genesis = t.head.Genesis
		return nil
	}
	stop := errors.New("stop")
	_, err := scanLines(dir, 1, func(_ int, raw []byte) error {
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

func (t *tail) scan(dir string, segment int) (place, []byte, error) {
	var at place
	rest, err := scanLines(dir, segment, func(_ int, raw []byte) error {
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

func (t *tail) scanWhole(dir string, segment int) (place, error) {
	at, rest, err := t.scan(dir, segment)
	if err == nil && (len(rest) > 0 || !at.known) {
		err = fmt.Errorf("%w: segment %s is incomplete though another follows", ErrTampered, naming.Segment(segment))
	}
	return at, err
}

// writeHead signs that the chain reaches the record and puts it in head.json.
// Only what is durable may be signed.
func (t *tail) writeHead(seq uint64, hash Digest, state HeadState, now time.Time) error {
	return t.signOff(place{seq: seq + 1, prev: hash}, state, now, func() error { return nil })
}

// syncSigned makes durable what was written up to a place, here and elsewhere, and puts a head
// that signs it in head.json.
func (t *tail) syncSigned(to place, state HeadState, now time.Time) error {
	return t.signOff(to, state, now, t.sync)
}

// signOff signs that the chain reaches the place, settles what is signed, and keeps it elsewhere,
// beside the head's own bytes. The head takes its name when all is durable.
func (t *tail) signOff(to place, state HeadState, now time.Time, settle func() error) error {
	h := t.headAt(to, state, now)
	err := t.putHead(h.Bytes(), func() error {
		if err := settle(); err != nil {
			return err
		}
		return t.keep(h)
	})
	if err != nil {
		return err
	}
	t.head = h
	return nil
}

func (t *tail) headAt(to place, state HeadState, now time.Time) Head {
	return signHead(Head{Chain: t.chain, Genesis: t.genesis, Seq: to.seq - 1, RecordHash: to.prev, State: state}, t.keys, now)
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
	if err := t.put(lines.Bytes(), segmentBytes); err != nil {
		return err
	}
	return t.syncSigned(place{seq: t.seal.next, prev: t.seal.prev}, HeadOpen, now)
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
			return fmt.Errorf("chain %s: %w: segment %s ends in the middle of a line", chain, ErrTampered, naming.Segment(segment))
		}
	}
	if found.last == 0 {
		return fmt.Errorf("chain %s: %w", chain, errors.New("no records"))
	}
	return nil
}
