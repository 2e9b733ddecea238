package machines_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// K-20, X-06: where the beginning of a chain is pruned, no record of it stays in the store, not in a row that holds what
// stays, too. Where a copy of the store was put back that lacks the chain, what stays is brought from this machine's disk,
// with the chains after it.
func TestThePrunedBeginningOfAChainLeavesTheStore(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	r := registry.NewOn(registry.Paths{State: t.TempDir()}, "acme", func() string { return address })
	t.Cleanup(r.Store().Close)
	keys, err := audit.LoadKeys(r.Paths().Keys())
	check(t, err)
	m := machines.Of(r, keys)
	kept, err := m.Elsewhere(t.Context())
	check(t, err)
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var there atomic.Bool
	late := func(b audit.Batch) (uint64, error) {
		if b.Chain == audit.IndexChain || there.Load() {
			return kept(b)
		}
		return b.Head.Seq + 1, nil
	}
	for _, name := range []string{"long.1", "next.1"} {
		there.Store(false)
		chain, err := audit.Open(t.Context(), audit.Options{Root: r.Paths().Audit(), Chain: name, Keys: keys, Now: func() time.Time { return day }, SegmentBytes: 2000, Elsewhere: late})
		check(t, err)
		for n := range 20 {
			rec := nacre.Record{Kind: nacre.KindCallBegin, Source: "door", Topic: "before-" + strings.Repeat("x", 100), Time: day}
			if n >= 10 {
				rec.Topic, rec.Time = "after", day.AddDate(0, 0, 2)
			}
			check(t, chain.Commit(t.Context(), rec))
		}
		there.Store(true) // the store lacks all of it, and takes it as one row
		check(t, chain.Close(t.Context()))
	}
	pool, err := r.Store().Connected(t.Context())
	check(t, err)
	count := func(where string) (n int) {
		t.Helper()
		check(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM nacre_chain_line WHERE "+where).Scan(&n))
		return n
	}
	const spanning = `position('before-'::bytea IN lines) > 0 AND position('after'::bytea IN lines) > 0`
	if count(spanning) == 0 {
		t.Fatal("no row holds both what goes and what stays")
	}
	holds := func(pruned bool) {
		t.Helper()
		reports, err := m.Verify(t.Context())
		if err != nil || len(reports) != 3 {
			t.Fatalf("have %+v, %v", reports, err)
		}
		for _, r := range reports[1:] {
			if r.State != audit.StateClosed || pruned != (r.Pruned > 0) {
				t.Errorf("have %+v", r)
			}
		}
	}
	holds(false)
	list, err := audit.Prune(t.Context(), audit.PruneOptions{Root: r.Paths().Audit(), Keys: keys, Now: time.Now, Before: day.AddDate(0, 0, 1), By: "test", Elsewhere: kept})
	if err != nil || len(list) != 2 || list[0].Whole || list[0].Records == 0 {
		t.Fatalf("have %+v, %v", list, err)
	}
	for range 2 {
		check(t, m.Prune(t.Context()))
		for _, p := range list {
			if n := count("chain = '" + p.Chain + "' AND first < " + strconv.FormatUint(p.Records, 10)); n != 0 {
				t.Errorf("%d rows hold records of %s that were pruned", n, p.Chain)
			}
		}
		holds(true)
	}
	_, err = pool.Exec(t.Context(), `DELETE FROM nacre_chain WHERE chain LIKE '%.1'`)
	check(t, err)
	if _, err := m.Verify(t.Context()); err == nil {
		t.Error("what is missing of the chains is not found")
	}
	bring := func(want string) error {
		t.Helper()
		brought, err := m.Bring(t.Context())
		if strings.Join(brought, " ") != want {
			t.Errorf("have %v, want %s", brought, want)
		}
		return err
	}
	// a chain of which this disk has lost the lines stays away, and keeps no other from coming.
	lines, aside := filepath.Join(r.Paths().Audit(), "long.1"), filepath.Join(t.TempDir(), "long.1")
	check(t, os.Mkdir(aside, 0o700))
	segments, err := filepath.Glob(filepath.Join(lines, "*.jsonl"))
	check(t, err)
	for _, file := range segments {
		check(t, os.Rename(file, filepath.Join(aside, filepath.Base(file))))
	}
	if err := bring("next.1"); err == nil || !strings.Contains(err.Error(), "chain long.1: its lines end at") {
		t.Errorf("a chain without lines: have %v", err)
	}
	for _, file := range segments {
		check(t, os.Rename(filepath.Join(aside, filepath.Base(file)), file))
	}
	check(t, bring("long.1"))
	holds(true)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
