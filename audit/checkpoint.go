package audit

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/canonical"
)

// KindChainPrune is the index record that says what was removed of a chain: a
// checkpoint, signed with the index's head like all before it (K-20).
const KindChainPrune nacre.Kind = "chain.prune"

// checkpoint is the detail of a chain.prune record. Everything in it was
// verified before it was removed.
type checkpoint struct {
	// Before is the limit that was asked for, By who asked.
	Before string `json:"before"`
	By     string `json:"by"`
	Bytes  int64  `json:"bytes"`
	Chain  string `json:"chain"`
	// FirstSeq and Seq are the first and the last record that were removed.
	FirstSeq uint64 `json:"first_seq"`
	Genesis  Digest `json:"genesis"`
	// MACKey names the key of the records that follow, where it is not the first one.
	MACKey     *Digest `json:"mac_key,omitempty"`
	RecordHash Digest  `json:"record_hash"`
	// Segments is the number of the last segment that was removed.
	Segments int    `json:"segments"`
	Seq      uint64 `json:"seq"`
	// Whole says that nothing of the chain was kept.
	Whole bool `json:"whole"`
}

func (c checkpoint) check() error {
	if _, err := time.Parse(timeForm, c.Before); err != nil {
		return fmt.Errorf("before is not in the form %s", timeForm)
	}
	if c.Seq < c.FirstSeq || c.Seq > canonical.MaxInteger || c.Segments < 1 || c.Segments > maxSegments || c.Bytes < 0 {
		return errors.New("the checkpoint's numbers make no sense")
	}
	return nil
}

// segmentEnd is where a segment ended, and the latest time up to there.
type segmentEnd struct {
	place
	latest time.Time
	mac    int // which MAC key the records after it have
}

// follow applies what one index record says to what is known of pruning. A
// chain that was removed whole may begin again under its name.
func (v *verification) follow(e event) error {
	if e.cut == nil {
		if v.cut != nil && v.cut.Whole {
			v.cut, v.isClosed, v.closed, v.opened, v.signed = nil, false, 0, 0, 0
			v.marks, v.genesis = map[uint64]Digest{}, nil
		}
		return nil
	}
	next := uint64(0)
	if v.cut != nil {
		next = v.cut.Seq + 1
	}
	if e.cut.FirstSeq != next || v.cut != nil && (v.cut.Whole || v.cut.Segments > e.cut.Segments) {
		return fmt.Errorf("%w: the checkpoint at index record %d does not follow the one before it", ErrTampered, e.at)
	}
	if !v.isClosed || v.closed <= v.opened && v.opened > 0 || e.cut.Whole != (e.cut.Seq == v.closed) {
		return fmt.Errorf("%w: the checkpoint at index record %d removes what was not sealed", ErrTampered, e.at)
	}
	v.cut, v.report.Pruned = e.cut, e.cut.Seq+1
	return nil
}

// checkFirst wants the first segment that stands there to be the one after those removed.
func (c *checkpoint) checkFirst(found span) error {
	want := 1
	if c != nil {
		want = c.Segments + 1
	}
	switch {
	case found.last == 0 || found.first == want:
		return nil
	case found.first < want:
		return errInterrupted
	}
	return fmt.Errorf("%w: segment %s is missing", ErrTampered, naming.Segment(want))
}

var errInterrupted = fmt.Errorf("%w: its removal under a signed checkpoint was interrupted: run nacre audit prune again", ErrUnsealed)

// concludePruned judges a chain that was removed whole.
func (v *verification) concludePruned() error {
	r := &v.report
	r.State, r.Records, r.RecordHash = StatePruned, v.cut.Seq+1, v.cut.RecordHash
	if v.signed > v.cut.Seq {
		return fmt.Errorf("%w: it was removed up to record %d, before record %d, which was signed", ErrTampered, v.cut.Seq, v.signed)
	}
	_, err := os.Lstat(v.dir)
	switch {
	case isMissing(err):
		return nil
	case err != nil:
		return asTampered(err)
	case !isEmpty(v.dir):
		return errInterrupted
	}
	return nil
}
