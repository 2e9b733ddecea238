package audit_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// place is a second place for chains, which can be away.
type place struct {
	mu    sync.Mutex
	lines map[string][][]byte
	heads map[string][]byte
	away  error
	// batches are how many it took.
	batches int
}

func newPlace() *place { return &place{lines: map[string][][]byte{}, heads: map[string][]byte{}} }

func (p *place) keep(b audit.Batch) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away != nil {
		return 0, p.away
	}
	if have := uint64(len(p.lines[b.Chain])); b.First != have {
		return have, nil
	}
	for line := range bytes.Lines(b.Lines) {
		p.lines[b.Chain] = append(p.lines[b.Chain], bytes.Clone(line[:len(line)-1]))
	}
	p.heads[b.Chain] = b.Head.Bytes()
	p.batches++
	return uint64(len(p.lines[b.Chain])), nil
}

func (p *place) is(away error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// Heads implements audit.Source.
func (p *place) Heads(context.Context) (map[string][]byte, error) { return p.heads, nil }

// Lines implements audit.Source.
func (p *place) Lines(_ context.Context, chain string, fn func(uint64, []byte) error) error {
	for i, line := range p.lines[chain] {
		if err := fn(uint64(i), slices.Clone(line)); err != nil {
			return err
		}
	}
	return nil
}

// verified is what a look at the copy finds.
func (p *place) verified(t *testing.T, h *house, since uint64) (audit.RootReport, error) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	root := filepath.Join(t.TempDir(), "copy")
	if err := audit.Lay(t.Context(), p, root); err != nil {
		t.Fatal(err)
	}
	return audit.VerifyAll(root, audit.VerifyOptions{PublicKey: h.keys.Public(), Copy: &audit.Copy{Since: since}})
}

// house is a machine's chains and keys.
type house struct {
	root string
	keys audit.Keys
}

func newHouse(t *testing.T) *house {
	t.Helper()
	keys, err := audit.NewKeys(bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return &house{root: filepath.Join(t.TempDir(), "audit"), keys: keys}
}

func (h *house) options(chain string, to audit.Elsewhere) audit.Options {
	return audit.Options{Root: h.root, Chain: chain, Keys: h.keys, Now: time.Now, Elsewhere: to}
}

func (h *house) open(t *testing.T, chain string, to audit.Elsewhere) *audit.Chain {
	t.Helper()
	c, err := audit.Open(t.Context(), h.options(chain, to))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func commits(t *testing.T, c *audit.Chain, n int) {
	t.Helper()
	for range n {
		if err := c.Commit(t.Context(), nacre.Record{Kind: nacre.KindCallBegin, Source: "door"}); err != nil {
			t.Fatal(err)
		}
	}
}

func closes(t *testing.T, c *audit.Chain) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// states are how the chains of a report end.
func states(r audit.RootReport) map[string]audit.State {
	all := map[string]audit.State{}
	for _, c := range r.Chains {
		all[c.Chain] = c.State
	}
	return all
}

// what was told to be durable is so elsewhere, too, and what is there is proven by itself:
// while the chain is written, and after its end. Chains of before are no part of it.
func TestWhatIsDurableIsSoElsewhere(t *testing.T) {
	t.Parallel()
	h, p := newHouse(t), newPlace()
	closes(t, h.open(t, "before", nil))
	since := uint64(3) // the index's own opening, and the chain's opening and end
	c := h.open(t, "one", p.keep)
	commits(t, c, 3)
	if have := len(p.lines["one"]); have != 4 {
		t.Errorf("after three commits: have %d records elsewhere, want 4", have)
	}
	if r, err := p.verified(t, h, since); err != nil || states(r)["one"] != audit.StateOpen || len(r.Chains) != 1 {
		t.Errorf("while it is written: have %v, %v", states(r), err)
	}
	if _, err := p.verified(t, h, 0); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("a chain that is missing: have %v", err)
	}
	closes(t, c)
	if r, err := p.verified(t, h, since); err != nil || states(r)["one"] != audit.StateClosed {
		t.Errorf("after its end: have %v, %v", states(r), err)
	}
	p.lines["one"] = p.lines["one"][:3]
	if _, err := p.verified(t, h, since); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("a copy that was cut off: have %v", err)
	}
}

// where it cannot be kept elsewhere, nothing is told to be durable and nothing more is
// recorded. The next start brings what was missing there, and ends the chain in both places.
func TestWhatCannotBeKeptElsewhereEndsTheChain(t *testing.T) {
	t.Parallel()
	h, p := newHouse(t), newPlace()
	c := h.open(t, "one", p.keep)
	commits(t, c, 1)
	away := errors.New("it is away")
	p.is(away)
	if _, err := audit.Open(t.Context(), h.options("two", p.keep)); !errors.Is(err, away) {
		t.Errorf("a chain that begins: have %v", err)
	}
	for range 2 {
		if err := c.Commit(t.Context(), nacre.Record{Kind: nacre.KindCallBegin, Source: "door"}); !errors.Is(err, away) {
			t.Errorf("have %v", err)
		}
	}
	if err := c.Close(t.Context()); !errors.Is(err, away) {
		t.Errorf("its end: have %v", err)
	}
	p.is(nil)
	for _, chain := range []string{"one", "two"} {
		if err := audit.Seal(t.Context(), h.options(chain, p.keep)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.verified(t, h, 0)
	if err != nil || states(r)["one"] != audit.StateClosed || states(r)["two"] != audit.StateClosed {
		t.Errorf("have %v, %v", states(r), err)
	}
	here, err := audit.VerifyAll(h.root, audit.VerifyOptions{PublicKey: h.keys.Public()})
	if err != nil || len(here.Chains) != 2 || here.Chains[0].RecordHash != r.Chains[0].RecordHash {
		t.Errorf("here: have %v, %v", here, err)
	}
}

// a copy that is put back from yesterday gets what it lacks, in parts and in the middle of a
// chain. One that is ahead of the disk ends the chain.
func TestACopyOfBeforeGetsWhatItLacks(t *testing.T) {
	t.Parallel()
	h, p := newHouse(t), newPlace()
	c := h.open(t, "one", p.keep)
	commits(t, c, 1)
	p.mu.Lock()
	p.lines, p.heads, p.batches = map[string][][]byte{"one": p.lines["one"][:1], audit.IndexChain: nil}, map[string][]byte{}, 0
	p.mu.Unlock()
	commits(t, c, 1)
	for range 5000 {
		if err := c.Append(t.Context(), nacre.Record{Kind: nacre.KindCallBegin, Source: "door", Topic: string(bytes.Repeat([]byte("x"), 900))}); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	p.lines["one"] = p.lines["one"][:2]
	p.mu.Unlock()
	commits(t, c, 1)
	closes(t, c)
	if r, err := p.verified(t, h, 0); err != nil || states(r)["one"] != audit.StateClosed || r.Chains[0].Records != 5005 {
		t.Errorf("have %+v, %v", r.Chains, err)
	}

	c = h.open(t, "two", p.keep)
	p.mu.Lock()
	p.lines["two"] = append(p.lines["two"], p.lines["one"][:3]...)
	p.mu.Unlock()
	if err := c.Commit(t.Context(), nacre.Record{Kind: nacre.KindCallBegin, Source: "door"}); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("a copy that is ahead: have %v", err)
	}
}

// what was pruned here is left out of a copy that still has it.
func TestACopyFollowsACheckpoint(t *testing.T) {
	t.Parallel()
	h, p := newHouse(t), newPlace()
	o := h.options("one", p.keep)
	o.SegmentBytes = 2000
	c, err := audit.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	commits(t, c, 20)
	closes(t, c)
	whole := h.open(t, "gone", p.keep)
	closes(t, whole)
	list, err := audit.Prune(t.Context(), audit.PruneOptions{Root: h.root, Keys: h.keys, Now: time.Now, Before: time.Now().Add(time.Hour), By: "test"})
	if err != nil || len(list) != 2 {
		t.Fatalf("have %v, %v", list, err)
	}
	closes(t, h.open(t, "three", p.keep)) // which brings the checkpoints
	r, err := p.verified(t, h, 0)
	if have := states(r); err != nil || have["one"] != audit.StatePruned || have["gone"] != audit.StatePruned || have["three"] != audit.StateClosed {
		t.Errorf("have %v, %v", have, err)
	}
}
