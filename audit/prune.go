package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/member"
	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/disk"
)

// pruneBatch is how many chains are locked and judged at once.
const pruneBatch = 128

// PruneOptions say what to remove. Root, Keys, Now and Before are required.
type PruneOptions struct {
	Root string
	Keys Keys
	Now  func() time.Time
	// Before is the limit: a segment goes when all its records are older.
	Before time.Time
	// By is recorded as who removed it.
	By string
	// DryRun only tells what would go.
	DryRun bool
	// Elsewhere takes the checkpoints, too, before anything goes; nil where the chains are in one place.
	Elsewhere Elsewhere

	step         func(string) error // tests end it between two steps
	segmentBytes int64              // of the segments that PruneSQLite makes; tests have small ones
}

// Pruned tells what was, or would be, removed of one chain.
type Pruned struct {
	Chain   string `json:"chain"`
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes"`
	// Whole says that nothing of the chain was kept.
	Whole bool `json:"whole"`
	// Finished says that an earlier removal was interrupted and came to its end now.
	Finished bool `json:"finished,omitempty"`
	// Skipped is why the chain was left alone, or empty.
	Skipped string `json:"skipped,omitempty"`
}

// Prune removes closed chains, and leading segments of closed chains, whose
// records are all older than o.Before. What goes is verified first, and then
// named in a checkpoint in the index, durable and signed before the first file
// is removed: Verify accepts exactly that absence (K-20). A removal that was
// interrupted is finished by the next one. A chain with a living writer, or one
// that is not proven, is left alone.
func Prune(ctx context.Context, o PruneOptions) ([]Pruned, error) {
	if o.Now == nil || o.Before.IsZero() {
		return nil, errors.New("prune: give a clock and the time before which records go")
	}
	if err := o.Keys.check(); err != nil {
		return nil, err
	}
	if o.step == nil {
		o.step = func(string) error { return nil }
	}
	index, err := readIndex(o.Root, o.trust())
	if errors.Is(err, errNoIndex) {
		return nil, nil // nothing was ever written
	}
	if err != nil {
		return nil, err
	}
	var list []Pruned
	for names := index.order; len(names) > 0; {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		n := min(len(names), pruneBatch)
		some, err := o.batch(ctx, names[:n])
		if list = append(list, some...); err != nil {
			return list, err
		}
		names = names[n:]
	}
	return list, nil
}

func (o PruneOptions) trust() VerifyOptions {
	return VerifyOptions{PublicKey: o.Keys.Public(), MACKey: o.Keys.MAC()}
}

// batch locks the chains before it reads the index, so that nothing changes in between.
func (o PruneOptions) batch(ctx context.Context, names []string) (list []Pruned, err error) {
	var held []string
	for _, name := range names {
		dir := filepath.Join(o.Root, name)
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue // gone already, or for Verify to complain of
		}
		lock, err := takeLock(ctx, dir, 0)
		if errors.Is(err, ErrLocked) {
			list = append(list, Pruned{Chain: name, Skipped: "its writer lives"})
			continue
		}
		if err != nil {
			return list, err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
		held = append(held, name)
	}
	index, err := readIndex(o.Root, o.trust())
	if err != nil {
		return list, err
	}
	for _, name := range held {
		p, err := o.chain(ctx, name, index)
		if err != nil {
			return list, fmt.Errorf("prune chain %s: %w", name, err)
		}
		if p != (Pruned{}) {
			list = append(list, p)
		}
	}
	return list, nil
}

// chain prunes one chain whose lock is held.
func (o PruneOptions) chain(ctx context.Context, name string, index *indexView) (Pruned, error) {
	dir := filepath.Join(o.Root, name)
	v, err := newVerification(dir, name, o.trust())
	if err != nil {
		return Pruned{}, err
	}
	err = v.run(index)
	if errors.Is(err, errInterrupted) {
		p := Pruned{Chain: name, Records: v.cut.Seq + 1 - v.cut.FirstSeq, Bytes: v.cut.Bytes, Whole: v.cut.Whole, Finished: true}
		if o.DryRun {
			return p, nil
		}
		return p, o.remove(dir, *v.cut)
	}
	if err != nil {
		return Pruned{Chain: name, Skipped: err.Error()}, nil //nolint:nilerr // evidence that does not hold is kept, and told
	}
	if v.report.State != StateClosed {
		return Pruned{}, nil
	}
	cut, err := o.cut(v)
	if err != nil || cut == nil {
		return Pruned{}, err
	}
	p := Pruned{Chain: name, Records: cut.Seq + 1 - cut.FirstSeq, Bytes: cut.Bytes, Whole: cut.Whole}
	if o.DryRun {
		return p, nil
	}
	return p, o.carryOut(ctx, dir, *cut)
}

// cut says how much of a verified chain is old enough, or nil for nothing.
func (o PruneOptions) cut(v *verification) (*checkpoint, error) {
	n := 0
	for n < len(v.ends) && v.ends[n].latest.Before(o.Before) {
		n++
	}
	if n == 0 {
		return nil, nil //nolint:nilnil // nothing to remove is no failure
	}
	last := v.ends[n-1]
	c := &checkpoint{
		Before: o.Before.UTC().Format(timeForm), By: member.Cut(strings.ToValidUTF8(o.By, "\uFFFD")), Chain: v.chain, Genesis: v.genesis[0],
		RecordHash: last.prev, Seq: last.seq - 1, Segments: n, Whole: n == len(v.ends),
	}
	if v.cut != nil {
		c.FirstSeq, c.Segments = v.cut.Seq+1, c.Segments+v.cut.Segments
	}
	if id := v.mac.name(last.mac); id != nil && !c.Whole {
		c.MACKey = id
	}
	for segment := c.Segments - n + 1; segment <= c.Segments; segment++ {
		info, err := os.Lstat(filepath.Join(v.dir, naming.Segment(segment)))
		if err != nil {
			return nil, err
		}
		c.Bytes += info.Size()
	}
	return c, nil
}

// carryOut makes the checkpoint durable and then removes what it names.
func (o PruneOptions) carryOut(ctx context.Context, dir string, c checkpoint) error {
	detail, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := o.step("checkpoint"); err != nil {
		return err
	}
	r := nacre.Record{Kind: KindChainPrune, Time: o.Now(), Source: source, Detail: detail}
	if _, err := register(ctx, Options{Root: o.Root, Keys: o.Keys, Elsewhere: o.Elsewhere}, nil, r.Time, r); err != nil {
		return err
	}
	return o.remove(dir, c)
}

// remove takes away what a checkpoint names and nothing else. It may be
// repeated after it was interrupted anywhere.
func (o PruneOptions) remove(dir string, c checkpoint) error {
	for segment := 1; segment <= c.Segments; segment++ {
		if err := o.unlink(filepath.Join(dir, naming.Segment(segment))); err != nil {
			return err
		}
	}
	if !c.Whole {
		return disk.SyncDir(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	names := []string{headFile, headFile + ".tmp", lockFile}
	for _, entry := range entries {
		if naming.IsTorn(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	for _, name := range names {
		if err := o.unlink(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := o.unlink(dir); err != nil {
		return fmt.Errorf("something stands there that is none of the chain's: %w", err)
	}
	return disk.SyncDir(o.Root)
}

func (o PruneOptions) unlink(path string) error {
	if err := o.step("remove " + filepath.Base(path)); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !isMissing(err) {
		return err
	}
	return nil
}
