package audit

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/naming"
)

// State says how a chain ends.
type State string

// The states of a chain.
const (
	// StateClosed: it ends exactly at a signed closing head.
	StateClosed State = "closed"
	// StateOpen: its writer lives, so that it may still grow. Not a failure.
	StateOpen State = "open"
	// StateAbandoned: no closing head and no living writer. Not proven, until
	// the next start seals it; with an outside head, proven up to there.
	StateAbandoned State = "abandoned"
	// StatePruned: the whole chain was removed under a signed checkpoint.
	StatePruned State = "pruned"
)

// VerifyOptions say whom to trust. PublicKey is required.
type VerifyOptions struct {
	PublicKey ed25519.PublicKey
	// MACKey, where given, is checked on every record.
	// There may be several of 32 bytes, one after another, the newest first.
	MACKey []byte
	// Head, where given, is one that was kept elsewhere; the chain must reach
	// it. The index need not be there then, unless IndexHead is given too.
	Head *Head
	// IndexHead is a head of the index chain that was kept elsewhere.
	IndexHead *Head
	// Copy says that the chains are what an [Elsewhere] kept, and may go on elsewhere.
	Copy *Copy
}

// Copy is what is known of chains that were kept elsewhere.
type Copy struct {
	// Since is how many records the index had when the copy was begun. Chains of before are no
	// part of it, unless they went on.
	Since uint64
}

// lacks reports whether a chain began before the copy did, and is no part of it.
func (c *Copy) lacks(events []event, dir string) bool {
	if c == nil || len(events) == 0 || events[0].at >= c.Since {
		return false
	}
	_, err := os.Lstat(dir)
	return isMissing(err)
}

// Unfinished is a beginning without its end: whether it took effect is unknown (K-21).
type Unfinished struct {
	Kind nacre.Kind `json:"kind"`
	Seq  uint64     `json:"seq"`
	ID   string     `json:"id"`
}

// Report is what a verification found.
type Report struct {
	Chain    string `json:"chain"`
	State    State  `json:"state"`
	Records  uint64 `json:"records"`
	Segments int    `json:"segments"`
	// Unsigned counts the records after the last signed head: linked, but
	// vouched for by nobody's signature yet.
	Unsigned uint64 `json:"unsigned"`
	// OutcomeUnknown counts the call.begin records without a call.end.
	OutcomeUnknown int `json:"outcome_unknown"`
	// Unfinished names beginnings without an end, the first 100.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
	First      time.Time    `json:"first,omitzero"`
	Last       time.Time    `json:"last,omitzero"`
	// RecordHash is the last record's.
	RecordHash Digest `json:"record_hash"`
	// Pruned counts the records before the first kept one that were removed under a signed checkpoint.
	Pruned uint64 `json:"pruned,omitempty"`
	// Problem is why the chain is not proven, or empty.
	Problem string `json:"problem,omitempty"`
}

// Verify checks one chain against its own head.json, the index, and a head
// kept elsewhere if one is given. A nil error means that the chain is proven:
// closed, or open with a living writer, or that it reaches the given head.
// Otherwise the error wraps ErrTampered or ErrUnsealed and says where and why.
func Verify(root, chain string, o VerifyOptions) (Report, error) {
	if _, err := chainDir(root, chain); err != nil {
		return Report{}, err
	}
	return steady(root, func() (Report, error) { return verifyWithIndex(root, chain, o) })
}

func verifyWithIndex(root, chain string, o VerifyOptions) (Report, error) {
	var index *indexView
	if chain != IndexChain {
		var err error
		if index, err = readIndex(root, o); errors.Is(err, errNoIndex) && o.Head != nil && o.IndexHead == nil {
			index, err = nil, nil
		}
		if err != nil {
			err = asTampered(err)
			return Report{Chain: chain, Problem: err.Error()}, err
		}
	}
	return verifyTwice(filepath.Join(root, chain), chain, o, index)
}

// verifyTwice looks again where a writer came while the chain was being read.
func verifyTwice(dir, chain string, o VerifyOptions, index *indexView) (Report, error) {
	live := chain != IndexChain && hasWriter(dir)
	r, err := verifyChain(dir, chain, o, index, live)
	if err != nil && !live && chain != IndexChain && hasWriter(dir) {
		r, err = verifyChain(dir, chain, o, index, true)
	}
	return r, err
}

func verifyChain(dir, chain string, o VerifyOptions, index *indexView, live bool) (Report, error) {
	v, err := newVerification(dir, chain, o)
	if err == nil {
		v.live = live
		err = v.run(index)
	}
	if err != nil {
		err = fmt.Errorf("chain %s: %w", chain, err)
		v.report.Problem = err.Error()
	}
	return v.report, err
}

func newVerification(dir, chain string, o VerifyOptions) (*verification, error) {
	mac, err := newMACRing(o.MACKey)
	return &verification{
		chain: chain, dir: dir, o: o, report: Report{Chain: chain, State: StateAbandoned}, ring: ringOf(o.PublicKey),
		vouched: vouched{marks: map[uint64]Digest{}}, pending: map[string][]Unfinished{}, mac: mac,
	}, err
}

// asTampered makes a file that is not there, or cannot be read, a failed
// check that says so.
func asTampered(err error) error {
	if errors.Is(err, ErrTampered) || errors.Is(err, ErrUnsealed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTampered, err)
}

// verification is one walk over one chain.
type verification struct {
	chain, dir string
	o          VerifyOptions
	live       bool
	report     Report
	mac        *macRing
	ring       ring
	vouched
	reading
	cut     *checkpoint // what was pruned, if anything
	pending map[string][]Unfinished
	entries []Entry // of the index chain only
}

// vouched is what signed heads and the index say of a chain, before it is read.
type vouched struct {
	marks    map[uint64]Digest // records that they name
	genesis  []Digest          // what they say the chain begins with
	signed   uint64            // highest seq that is vouched for
	opened   uint64            // highest seq at which the index saw the chain opened
	isClosed bool              // a closing head stands at closed
	closed   uint64
}

// reading is how far a chain was read.
type reading struct {
	first    Digest // genesis, once record 0 was read
	latest   time.Time
	ends     []segmentEnd
	at       place
	lastKind nacre.Kind
}

func (v *verification) run(index *indexView) error {
	if err := v.gather(index); err != nil {
		return err
	}
	if v.cut != nil && v.cut.Whole {
		return v.concludePruned()
	}
	found, err := segments(v.dir)
	if err == nil {
		err = v.cut.checkFirst(found)
	}
	if err != nil {
		return asTampered(err)
	}
	v.report.Segments = found.count()
	var rest []byte
	for segment := found.first; found.last > 0 && segment <= found.last; segment++ {
		if rest, err = scanLines(v.dir, segment, v.line); err != nil {
			return asTampered(err)
		}
		if len(rest) > 0 && segment < found.last {
			return fmt.Errorf("%w: segment %s ends in the middle of a line", ErrTampered, naming.Segment(segment))
		}
		v.ends = append(v.ends, segmentEnd{v.at, v.latest, v.mac.current})
	}
	return v.conclude(len(rest))
}

// gather collects all that is signed about the chain.
func (v *verification) gather(index *indexView) error {
	if index != nil {
		if err := v.consult(index); err != nil {
			return err
		}
	}
	if v.cut != nil && v.cut.Whole {
		return v.gatherOutside(index)
	}
	own, err := readHead(filepath.Dir(v.dir), v.chain)
	if err == nil && v.chain != IndexChain { // whose signature waits for the keys that the index tells
		err = v.verifyHead(own, index)
	}
	switch {
	case err == nil:
		if err := v.mark(own); err != nil {
			return err
		}
	case v.live && isMissing(err) && (index == nil || len(index.events[v.chain]) == 0):
		// just being made
	case isMissing(err):
		return fmt.Errorf("%w: head.json or the whole chain is missing", ErrTampered)
	default:
		return asTampered(err)
	}
	return v.gatherOutside(index)
}

// gatherOutside takes the head that was kept elsewhere.
func (v *verification) gatherOutside(index *indexView) error {
	h := v.o.Head
	if h == nil {
		return nil
	}
	if h.Chain != v.chain {
		return fmt.Errorf("%w: the head given belongs to chain %.90q", ErrTampered, h.Chain)
	}
	if v.chain != IndexChain {
		if err := v.verifyHead(*h, index); err != nil {
			return err
		}
	}
	return v.mark(*h)
}

// verifyHead wants a key that was in use between the first and the last time
// that the index tells of the chain.
func (v *verification) verifyHead(h Head, index *indexView) error {
	if len(v.o.PublicKey) != ed25519.PublicKeySize {
		return errNoKey
	}
	low, high := uint64(0), end
	if index != nil {
		v.ring = index.ring
		if events := index.events[v.chain]; len(events) > 0 {
			low, high = events[0].at, events[len(events)-1].at
		}
	}
	if v.live {
		high = end
	}
	if err := v.ring.verify(h, low, high); err != nil {
		return asTampered(err)
	}
	return nil
}

func (v *verification) consult(index *indexView) error {
	events := index.events[v.chain]
	if len(events) == 0 && v.o.Head == nil && v.o.Copy == nil && !v.live {
		return fmt.Errorf("%w: the index does not know it: its writer ended before it was entered, or somebody put it here", ErrUnsealed)
	}
	v.ring = index.ring
	for _, e := range events {
		if err := v.follow(e); err != nil {
			return err
		}
		if e.kind == nacre.KindChainOpen {
			v.opened = max(v.opened, e.Seq)
		}
		state := HeadOpen
		if e.kind == nacre.KindChainClose {
			state = HeadClosed
		}
		if err := v.mark(Head{Seq: e.Seq, RecordHash: e.RecordHash, Genesis: e.Genesis, State: state}); err != nil {
			return err
		}
	}
	return nil
}

// mark notes a record that somebody vouched for.
func (v *vouched) mark(h Head) error {
	if have, ok := v.marks[h.Seq]; ok && have != h.RecordHash {
		return fmt.Errorf("%w: two signed statements differ about record %d: the chain was replaced", ErrTampered, h.Seq)
	}
	v.marks[h.Seq] = h.RecordHash
	v.genesis = append(v.genesis, h.Genesis)
	v.signed = max(v.signed, h.Seq)
	if h.State == HeadClosed && (!v.isClosed || h.Seq > v.closed) {
		v.isClosed, v.closed = true, h.Seq
	}
	return nil
}

func (v *verification) line(_ int, raw []byte) error {
	e, err := decode(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTampered, err)
	}
	if v.report.Records == 0 {
		if err := v.begin(e); err != nil {
			return err
		}
	}
	if err := v.at.step(e); err != nil {
		return err
	}
	if err := v.checkMAC(e); err != nil {
		return err
	}
	if want, ok := v.marks[e.Seq]; ok && want != e.RecordHash {
		return fmt.Errorf("%w: record %d is not the one that was signed", ErrTampered, e.Seq)
	}
	if v.chain != IndexChain && v.lastKind == nacre.KindChainClose && e.Kind != nacre.KindChainOpen {
		return fmt.Errorf("%w: record %d follows the chain's end", ErrTampered, e.Seq)
	}
	v.note(e)
	return v.noteRotation(e)
}

// noteRotation takes the keys of the index that come after this record.
func (v *verification) noteRotation(e Entry) error {
	if v.chain != IndexChain || e.Kind != KindKeyRotate {
		return nil
	}
	if err := v.ring.rotate(e, v.first); err != nil {
		return err
	}
	var d rotation
	_ = json.Unmarshal(e.Detail, &d) // rotate has read it
	v.mac.switchTo(d.MACKey)
	return nil
}

func (v *verification) checkMAC(e Entry) error {
	if len(v.o.MACKey) == 0 {
		return nil
	}
	if e.Kind == nacre.KindChainOpen {
		var o opening
		if strictUnmarshal(e.Detail, &o) == nil && o.Chain == v.chain && o.MACKey != nil {
			v.mac.switchTo(*o.MACKey)
		}
	}
	if mac, ok := v.mac.sum(e.RecordHash); !ok || !hmac.Equal(mac[:], e.MAC[:]) {
		return fmt.Errorf("%w: record %d has a wrong MAC, or one of a key that was not given", ErrTampered, e.Seq)
	}
	return nil
}

// begin checks record 0 against the chain's name, the key and all that was
// said about its genesis.
func (v *verification) begin(e Entry) error {
	if v.cut != nil { // record 0 was checked before it was pruned
		v.at = place{seq: v.cut.Seq + 1, prev: v.cut.RecordHash, known: true}
		v.mac.follow(v.cut.MACKey)
		return nil
	}
	v.at = place{seq: 0, prev: e.PrevHash, known: true}
	v.first = e.PrevHash
	for _, g := range v.genesis {
		if g != e.PrevHash {
			return fmt.Errorf("%w: it does not begin with the genesis that was signed: it was replaced", ErrTampered)
		}
	}
	var o opening
	if err := strictUnmarshal(e.Detail, &o); err != nil || e.Kind != nacre.KindChainOpen {
		return fmt.Errorf("%w: the first record is not a chain.open", ErrTampered)
	}
	if v.chain == IndexChain { // whether it leads to the trusted key is asked when it has been read
		if key, err := ParsePublicKey(o.PublicKey); err == nil {
			v.ring = ringOf(key)
		}
	}
	if o.Chain != v.chain || o.Genesis != e.PrevHash || v.ring.find(o.PublicKey) < 0 {
		return fmt.Errorf("%w: it begins as chain %.90q with key %.64q", ErrTampered, o.Chain, o.PublicKey)
	}
	return nil
}

func (v *verification) note(e Entry) {
	r := &v.report
	if r.Records == 0 {
		r.First = e.Time
	}
	if e.Time.After(v.latest) {
		v.latest = e.Time
	}
	r.Records, r.Last, r.RecordHash, v.lastKind = e.Seq+1, e.Time, e.RecordHash, e.Kind
	if v.chain == IndexChain {
		v.entries = append(v.entries, e)
		return
	}
	if kind, begins := pairs(e.Kind); kind != "" {
		v.pair(kind, begins, e)
	}
}

// conclude judges what the walk found.
func (v *verification) conclude(rest int) error {
	v.countUnfinished()
	r := &v.report
	if r.Records == 0 && (!v.live || v.cut != nil) {
		return fmt.Errorf("%w: there are no records", ErrTampered)
	}
	if len(v.marks) > 0 && v.signed >= r.Records {
		return fmt.Errorf("%w: it ends before record %d, which was signed: its tail was cut off", ErrTampered, v.signed)
	}
	if len(v.marks) > 0 {
		r.Unsigned = r.Records - 1 - v.signed
	}
	sealed := v.isClosed && v.closed > v.opened
	switch {
	case v.live || v.chain == IndexChain:
		r.State = StateOpen
		return nil
	case sealed && (r.Records-1 > v.closed || rest > 0):
		return fmt.Errorf("%w: something follows its closing head at record %d", ErrTampered, v.closed)
	case sealed && v.lastKind == nacre.KindChainClose:
		r.State = StateClosed
		return nil
	case v.o.Head != nil && rest == 0:
		return nil
	case v.o.Copy != nil && rest == 0 && r.Unsigned == 0:
		r.State = StateOpen
		return nil
	}
	return fmt.Errorf("%w: what came after record %d cannot be proven complete (the next nacre start seals it)", ErrUnsealed, v.signed)
}
