package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Batch are whole lines of a chain, one after another.
type Batch struct {
	Chain string
	// First is the number of the first record; that of the last one is its head's.
	First uint64
	// Lines are the reader's until it returns.
	Lines []byte
	// Head signs that the chain reaches the last of them.
	Head Head
}

// Elsewhere keeps batches in another place than the chains' folder: durably, when it returns no
// error. It takes a batch that begins where it is in the chain, and leaves any other. next is
// the record that it lacks first, after that. It bounds its own time.
type Elsewhere func(Batch) (next uint64, err error)

// copied is how far a chain is where it is kept elsewhere.
type copied struct {
	to    Elsewhere // nil where it is kept in one place
	first uint64    // of the lines that wait
	lines []byte
}

// put writes lines, which are to be kept elsewhere with the next head.
func (t *tail) put(lines []byte, segmentBytes int64) error {
	if t.copied.to != nil {
		t.copied.lines = append(t.copied.lines, lines...)
	}
	return t.write(lines, segmentBytes)
}

// syncBoth makes durable what was written up to a place, here and elsewhere.
func (t *tail) syncBoth(to place, now time.Time) error {
	if err := t.sync(); err != nil || t.copied.to == nil {
		return err
	}
	return t.keep(t.headAt(to, HeadOpen, now))
}

// keep brings what is durable here, up to a head, to where it is kept elsewhere. What that
// lacks of before, since it was away then or nobody told it, comes first.
func (t *tail) keep(h Head) error {
	c := &t.copied
	if c.to == nil || len(c.lines) == 0 {
		return nil
	}
	next, err := c.to(Batch{t.chain, c.first, c.lines, h})
	if err == nil && next <= h.Seq {
		next, err = t.catchUp(next, h)
	}
	if err == nil && next != h.Seq+1 {
		err = fmt.Errorf("%w: the copy elsewhere reaches record %d, and the chain here record %d: its disk was put back, or two machines have one key", ErrTampered, int64(next)-1, h.Seq)
	}
	c.first, c.lines = h.Seq+1, c.lines[:0]
	return err
}

// catchUp reads the lines from a record on out of the chain's folder, and gives them in parts.
func (t *tail) catchUp(next uint64, h Head) (uint64, error) {
	folder, ok := t.store.(*segmented)
	if !ok {
		return next, errors.New("a chain in a database is kept in one place")
	}
	found, err := segments(folder.dir)
	if err != nil {
		return next, err
	}
	at, _ := time.Parse(timeForm, h.Time) // its writer's own
	part := Batch{Chain: t.chain, First: next}
	take := func(_ int, raw []byte) error {
		e, err := decode(raw)
		if err != nil || e.Seq < next {
			return err
		}
		part.Lines = append(append(part.Lines, raw...), '\n')
		if part.Head = h; e.Seq < h.Seq {
			if len(part.Lines) < maxPending {
				return nil
			}
			part.Head = t.headAt(place{seq: e.Seq + 1, prev: e.RecordHash}, HeadOpen, at)
		}
		if next, err = t.copied.to(part); err == nil && next != part.Head.Seq+1 {
			err = fmt.Errorf("the copy elsewhere lacks record %d, and it is not to be had any more", next)
		}
		part.First, part.Lines = next, part.Lines[:0]
		return err
	}
	for segment := found.first; segment <= found.last; segment++ {
		if _, err := scanLines(folder.dir, segment, take); err != nil {
			return next, err
		}
	}
	return next, nil
}

// Source is where lines and heads of chains are that stand in no folder.
type Source interface {
	// Heads are those of all chains, as [Head.Bytes] gives them.
	Heads(ctx context.Context) (map[string][]byte, error)
	// Lines gives fn each line of a chain in its order, without its newline, and the number of its
	// record. They are fn's to keep.
	Lines(ctx context.Context, chain string, fn func(seq uint64, line []byte) error) error
}

// Lay writes the chains of a source into root, a folder that is not there yet, as [Open] would
// have written them, for [VerifyAll] to judge. What the index says was pruned is left out.
func Lay(ctx context.Context, from Source, root string) error {
	return lay(ctx, from, root, DefaultSegmentBytes)
}

func lay(ctx context.Context, from Source, root string, segmentBytes int64) error {
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	heads, err := from.Heads(ctx)
	if err != nil {
		return err
	}
	cuts, err := cutsOf(ctx, from)
	if err != nil {
		return err
	}
	for chain, head := range heads {
		cut := cuts[chain]
		if cut.Whole {
			continue
		}
		dir, err := chainDir(root, chain)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, headFile), head, 0o600); err != nil {
			return err
		}
		to := &segmented{dir: dir, chain: chain, segment: cut.Segments}
		err = from.Lines(ctx, chain, func(seq uint64, line []byte) error {
			switch {
			case cut.Segments > 0 && seq <= cut.Seq:
				return nil
			case bytes.ContainsRune(line, '\n'):
				return fmt.Errorf("%w: a line of chain %s holds a newline", ErrTampered, chain)
			}
			return to.write(append(line, '\n'), segmentBytes)
		})
		if err := errors.Join(err, to.close()); err != nil {
			return err
		}
	}
	return nil
}

// cutsOf are the last checkpoints that the index has of chains. They are for Verify to judge,
// with the rest of the index.
func cutsOf(ctx context.Context, from Source) (map[string]checkpoint, error) {
	cuts := map[string]checkpoint{}
	return cuts, from.Lines(ctx, IndexChain, func(_ uint64, line []byte) error {
		if !bytes.Contains(line, []byte(KindChainPrune)) && len(cuts) == 0 {
			return nil
		}
		e, err := decode(line)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTampered, err)
		}
		d, err := parseEvent(e)
		switch {
		case e.Kind == KindKeyRotate || err != nil && e.Kind == "chain.open":
			return nil // of the index itself
		case err != nil:
			return err
		case d.cut != nil:
			cuts[d.Chain] = *d.cut
		case cuts[d.Chain].Whole: // it began again
			delete(cuts, d.Chain)
		}
		return nil
	})
}
