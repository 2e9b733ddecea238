package audit_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// day is the beginning of the n-th of June 2026.
func day(n int) time.Time { return time.Date(2026, 6, n, 0, 0, 0, 0, time.UTC) }

// writeOn makes a closed chain whose records are of the given days, a few segments each.
func writeOn(t testing.TB, root, chain string, days ...int) {
	t.Helper()
	o := options(t, root, chain)
	now := day(days[0])
	o.Now = func() time.Time { return now }
	c := openChain(t, o)
	for _, d := range days {
		now = day(d)
		for i := range 12 {
			r := call(nacre.KindCallBegin, fmt.Sprint(d, "-", i))
			r.Time = now
			if err := c.Commit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeChain(t, c)
}

func pruneOptions(t testing.TB, root string, before time.Time) audit.PruneOptions {
	t.Helper()
	return audit.PruneOptions{Root: root, Keys: testKeys(t), Now: testClock(), Before: before, By: "an operator"}
}

// newPruned is a root with the chains old (removed whole), long (its beginning removed), and young.
func newPruned(t testing.TB) sample {
	t.Helper()
	s := sample{t: t, root: filepath.Join(t.TempDir(), "audit")}
	writeOn(t, s.root, "old", 1)
	writeOn(t, s.root, "long", 2, 20)
	writeOn(t, s.root, "young", 25)
	if err := os.CopyFS(filepath.Join(filepath.Dir(s.root), "before"), os.DirFS(s.root)); err != nil {
		t.Fatal(err)
	}
	list, err := audit.Prune(t.Context(), pruneOptions(t, s.root, day(10)))
	if err != nil || len(list) != 2 || !list[0].Whole || list[1].Whole || list[0].Records != 14 || list[1].Records < 8 {
		t.Fatalf("have %+v, %v", list, err)
	}
	return s
}

// restore puts a file back as it was before the pruning.
func (s sample) restore(path string) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(s.root), "before", path))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(s.root, path)), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.put(path, data)
}

// firstOf is the first segment that is left of a chain.
func (s sample) firstOf(chain string) string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.root, chain, "*.jsonl"))
	if err != nil || len(names) < 2 {
		s.t.Fatal(names, err)
	}
	return filepath.Join(chain, filepath.Base(names[0]))
}

// bothAgree has both verifiers look at all chains.
func bothAgree(t *testing.T, root string, good bool) {
	t.Helper()
	_, err := audit.VerifyAll(root, trust(t))
	check(t, "chains", err, good)
	mac := filepath.Join(t.TempDir(), "mac")
	if err := os.WriteFile(mac, []byte(hex.EncodeToString(testKeys(t).MAC())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runPython(t, testpeer.Need(t, "python3"), exitOf(good), "--root", root, "--public-key", hex.EncodeToString(testKeys(t).Public()), "--mac-key", mac)
}

// K-20: prune keeps the suffix verifiable through a signed checkpoint, which
// excuses exactly what it names.
func TestPruningIsAcceptedAsTheCheckpointSaysAndNoFurther(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(sample)
		good bool
	}{
		{"nothing more", func(sample) {}, true},
		{"another segment goes too", func(s sample) { s.remove(s.firstOf("long")) }, false},
		{"the rest of the chain goes too", func(s sample) { s.remove("long") }, false},
		{"a chain that is not pruned goes too", func(s sample) { s.remove("young") }, false},
		{"a segment that is not pruned goes", func(s sample) { s.remove("young/000001.jsonl") }, false},
		{"a kept record is changed", func(s sample) { s.edit(s.firstOf("long"), `"n":1`, `"n":2`) }, false},
		{"the first kept record goes", func(s sample) {
			s.lines(s.firstOf("long"), func(l [][]byte) [][]byte { return l[1:] })
		}, false},
		{"a removed segment is put back", func(s sample) { s.restore("long/000001.jsonl") }, false},
		{"a removed chain's segment is put back", func(s sample) { s.restore("old/000001.jsonl") }, false},
		{"the checkpoint is edited", func(s sample) { s.edit("index/000001.jsonl", `"whole":false`, `"whole":true`) }, false},
		{"the checkpoints are dropped", func(s sample) {
			s.lines("index/000001.jsonl", func(l [][]byte) [][]byte { return l[:len(l)-3] })
		}, false},
		{"the index from before is put back", func(s sample) { s.restore("index/000001.jsonl"); s.restore("index/head.json") }, false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newPruned(t)
			c.do(s)
			bothAgree(t, s.root, c.good)
		})
	}
}

func TestPruningTellsWhatAndWhy(t *testing.T) {
	s := newPruned(t)
	for _, want := range []string{`"by":"an operator"`, `"before":"2026-06-10T00:00:00.000000000Z"`, `"chain":"old","first_seq":0`, `"whole":true`} {
		if !strings.Contains(string(s.get("index/000001.jsonl")), want) {
			t.Errorf("the index does not say %s", want)
		}
	}
	have, err := audit.Verify(s.root, "old", trust(t))
	if err != nil || have.State != audit.StatePruned || have.Records != 14 {
		t.Errorf("have %+v, %v", have, err)
	}
	have, err = audit.Verify(s.root, "long", trust(t))
	if err != nil || have.State != audit.StateClosed || have.Records != 26 || have.Pruned == 0 {
		t.Errorf("have %+v, %v", have, err)
	}
	if list, err := audit.Prune(t.Context(), pruneOptions(t, s.root, day(10))); err != nil || len(list) != 0 {
		t.Errorf("again: have %+v, %v", list, err)
	}
	list, err := audit.Prune(t.Context(), pruneOptions(t, s.root, day(22)))
	if err != nil || len(list) != 1 || !list[0].Whole {
		t.Errorf("the rest of it: have %+v, %v", list, err)
	}
	bothAgree(t, s.root, true)
}

func TestPrunedChainsGoOn(t *testing.T) {
	s := newPruned(t)
	for _, chain := range []string{"long", "old"} {
		c := openChain(t, options(t, s.root, chain))
		writeCalls(t, c, 3)
		bothAgree(t, s.root, true)
		closeChain(t, c)
	}
	bothAgree(t, s.root, true)
	if names, err := audit.Abandoned(s.root, testKeys(t).Public()); err != nil || len(names) != 0 {
		t.Errorf("have %v, %v", names, err)
	}
}

func TestPruningLeavesAloneWhatIsNotProven(t *testing.T) {
	s := sample{t: t, root: filepath.Join(t.TempDir(), "audit")}
	writeOn(t, s.root, "touched", 1)
	s.edit("touched/000001.jsonl", `"n":1`, `"n":2`)
	living := openChain(t, options(t, s.root, "living"))
	defer func() { _ = living.Close(context.Background()) }()
	dry := pruneOptions(t, s.root, day(30))
	writeOn(t, s.root, "good", 1)
	dry.DryRun = true
	if list, err := audit.Prune(t.Context(), dry); err != nil || len(list) != 3 {
		t.Errorf("have %+v, %v", list, err)
	}
	list, err := audit.Prune(t.Context(), pruneOptions(t, s.root, day(30)))
	if err != nil || len(list) != 3 {
		t.Fatalf("have %+v, %v", list, err)
	}
	for _, p := range list {
		if (p.Skipped == "") != (p.Chain == "good") {
			t.Errorf("have %+v", p)
		}
	}
	s.get("touched/000001.jsonl") // is still there
	if _, err := audit.Verify(s.root, "living", trust(t)); err != nil {
		t.Error(err)
	}
}

// A removal that ends between any two steps is either accepted or found, and
// the next one finishes it.
func TestInterruptedPruningIsFoundAndFinished(t *testing.T) {
	crash := errors.New("crash")
	for n := 1; ; n++ {
		root := filepath.Join(t.TempDir(), "audit")
		writeOn(t, root, "old", 1)
		writeOn(t, root, "long", 2, 20)
		o := pruneOptions(t, root, day(10))
		steps := o.StopAt(n, crash)
		_, err := audit.Prune(t.Context(), o)
		if err == nil {
			if *steps >= n || n < 12 {
				t.Fatalf("ended after %d of %d steps", *steps, n)
			}
			return
		}
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if _, err := audit.VerifyAll(root, trust(t)); err != nil && !errors.Is(err, audit.ErrUnsealed) {
			t.Errorf("step %d: have %v", n, err)
		}
		if names, err := audit.Abandoned(root, testKeys(t).Public()); err != nil || len(names) != 0 {
			t.Errorf("step %d: have %v, %v", n, names, err)
		}
		if _, err := audit.Prune(t.Context(), pruneOptions(t, root, day(10))); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
		if n%4 == 0 {
			bothAgree(t, root, true)
		} else if _, err := audit.VerifyAll(root, trust(t)); err != nil {
			t.Errorf("step %d, finished: have %v", n, err)
		}
	}
}

// A receipt of a run whose records were pruned holds as far as the checkpoint says.
func TestReceiptOfAPrunedChain(t *testing.T) {
	s := newSample(t)
	if _, err := audit.Prune(t.Context(), pruneOptions(t, s.root, day(1))); err != nil {
		t.Fatal(err)
	}
	r, err := audit.ReadReceipt(s.receipt)
	if err != nil {
		t.Fatal(err)
	}
	have, err := audit.VerifyReceipt(r, s.root, testKeys(t).Public())
	if err != nil || have.State != audit.StatePruned {
		t.Errorf("have %+v, %v", have, err)
	}
	key := hex.EncodeToString(testKeys(t).Public())
	runPython(t, testpeer.Need(t, "python3"), 0, "--root", s.root, "--public-key", key, "--receipt", s.receipt)
}
