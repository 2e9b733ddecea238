package audit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

func openCatalog(t testing.TB, root string) *audit.Catalog {
	t.Helper()
	c, err := audit.OpenCatalog(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// find returns what a query selects, as chain and number.
func find(t testing.TB, c *audit.Catalog, q audit.Query) (list []string) {
	t.Helper()
	for pages := 0; ; pages++ {
		page, next, err := c.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page {
			list = append(list, fmt.Sprint(f.Chain, "/", f.Seq))
		}
		if q.After = next; next == "" || pages > 1000 {
			return list
		}
	}
}

// searchable is a root with two chains over three days.
func searchable(t testing.TB) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "audit")
	for n, chain := range []string{"a", "b"} {
		o := options(t, root, chain)
		o.Now = func() time.Time { return day(1) }
		c := openChain(t, o)
		for d := 1; d <= 3; d++ {
			for _, kind := range []nacre.Kind{nacre.KindCallBegin, nacre.KindCallReject} {
				r := nacre.Record{Kind: kind, Time: day(d), Session: nacre.SessionID("s" + chain), Group: "g", Outcome: fmt.Sprint("o", n), Reason: fmt.Sprint("r", d),
					Detail: []byte(fmt.Sprintf(`{"capability":"cap.%d","x":{"capability":"other"}}`, d))}
				if err := c.Commit(context.Background(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		closeChain(t, c)
	}
	return root
}

// K-20
func TestCatalogFindsByWhatRecordsSay(t *testing.T) {
	c := openCatalog(t, searchable(t))
	for _, q := range []struct {
		name string
		q    audit.Query
		want string
	}{
		{"a kind, by time and then chain", audit.Query{Kind: nacre.KindCallReject}, "a/2 b/2 a/4 b/4 a/6 b/6"},
		{"a session and a kind", audit.Query{Session: "sb", Kind: nacre.KindCallBegin}, "b/1 b/3 b/5"},
		{"since is inclusive, until exclusive", audit.Query{Group: "g", Since: day(2), Until: day(3)}, "a/3 a/4 b/3 b/4"},
		{"an outcome and a reason", audit.Query{Outcome: "o1", Reason: "r3"}, "b/5 b/6"},
		{"a capability at the top of the detail", audit.Query{Capability: "cap.2"}, "a/3 a/4 b/3 b/4"},
		{"one that stands deeper", audit.Query{Capability: "other"}, ""},
		{"the newest first", audit.Query{Kind: nacre.KindCallReject, Newest: true}, "b/6 a/6 b/4 a/4 b/2 a/2"},
		{"nothing like it", audit.Query{Reason: "r1' OR 1=1 --"}, ""},
		{"a range that is turned round", audit.Query{Since: day(3), Until: day(1)}, ""},
		{"all", audit.Query{}, "a/0 a/1 a/2 a/7 b/0 b/1 b/2 b/7 a/3 a/4 b/3 b/4 a/5 a/6 b/5 b/6"},
	} {
		t.Run(strings.ReplaceAll(q.name, " ", "_"), func(t *testing.T) {
			for _, limit := range []int{0, 1, 2, 5} { // pages are deterministic
				q.q.Limit = limit
				if have := strings.Join(find(t, c, q.q), " "); have != q.want {
					t.Errorf("limit %d: have %s, want %s", limit, have, q.want)
				}
			}
		})
	}
	for _, q := range []audit.Query{{Limit: -1}, {Limit: audit.MaxPage + 1}, {After: "x"}, {After: "1/../2"}} {
		if _, _, err := c.Find(t.Context(), q); err == nil {
			t.Errorf("%+v: have no error", q)
		}
	}
}

// Whatever stands in the catalog's file, what is shown is what the chains say,
// and what Verify says does not change.
func TestCatalogIsNeverTheTruth(t *testing.T) {
	want := "a/2 b/2 a/4 b/4 a/6 b/6"
	for name, do := range map[string]func(t *testing.T, root, path string){
		"it is gone": func(t *testing.T, _, path string) { _ = os.Remove(path) },
		"it is garbage": func(t *testing.T, _, path string) {
			_ = os.WriteFile(path, []byte(strings.Repeat("garbage ", 1000)), 0o600)
		},
		"it is cut off": func(t *testing.T, _, path string) { _ = os.Truncate(path, 5000) },
		"pages are overwritten": func(t *testing.T, _, path string) {
			data, _ := os.ReadFile(path)
			for i := 4096; i < len(data); i += 3 {
				data[i] ^= 0x5a
			}
			_ = os.WriteFile(path, data, 0o600)
		},
		"it is of a newer version": func(t *testing.T, root, _ string) { execCatalog(t, root, "PRAGMA user_version = 99") },
		"a kind is changed": func(t *testing.T, root, _ string) {
			execCatalog(t, root, "UPDATE entry SET kind = 'call.reject' WHERE seq = 1")
		},
		"a place is changed": func(t *testing.T, root, _ string) { execCatalog(t, root, "UPDATE entry SET offset = offset + 7") },
		"a time is changed": func(t *testing.T, root, _ string) {
			execCatalog(t, root, "UPDATE entry SET time = 0 WHERE kind = 'call.reject'")
		},
		"it went further":  func(t *testing.T, root, _ string) { execCatalog(t, root, "UPDATE progress SET offset = 1 << 40") },
		"it went less far": func(t *testing.T, root, _ string) { execCatalog(t, root, "UPDATE progress SET offset = 0, next = 9") },
		"a table is gone":  func(t *testing.T, root, _ string) { execCatalog(t, root, "DROP TABLE progress") },
		"a chain is too many": func(t *testing.T, root, _ string) {
			execCatalog(t, root, "INSERT INTO progress VALUES ('zz', 1, 1, 0, 0, zeroblob(32), 1)")
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			root := searchable(t)
			if err := openCatalog(t, root).Close(); err != nil {
				t.Fatal(err)
			}
			do(t, root, audit.CatalogPath(root))
			c := openCatalog(t, root)
			if have := strings.Join(find(t, c, audit.Query{Kind: nacre.KindCallReject}), " "); have != want {
				t.Errorf("have %s, want %s", have, want)
			}
			if _, err := audit.VerifyAll(root, trust(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func execCatalog(t *testing.T, root, statement string) {
	t.Helper()
	if err := audit.ExecCatalog(audit.CatalogPath(root), statement); err != nil {
		t.Fatal(err)
	}
}

func TestCatalogFollowsTheChains(t *testing.T) {
	root := searchable(t)
	c := openCatalog(t, root)
	before := len(find(t, c, audit.Query{}))
	chain := openChain(t, options(t, root, "a"))
	writeCalls(t, chain, 20)
	if err := chain.Commit(t.Context(), call(nacre.KindCallBegin, "last")); err != nil { // what came before is on disk with it
		t.Fatal(err)
	}
	if have := len(find(t, openCatalog(t, root), audit.Query{})); have != before+42 {
		t.Errorf("after more records: have %d, want %d", have, before+42)
	}
	closeChain(t, chain)
	if _, err := audit.Prune(t.Context(), pruneOptions(t, root, day(20))); err != nil {
		t.Fatal(err)
	}
	if have := find(t, openCatalog(t, root), audit.Query{}); len(have) != 0 {
		t.Errorf("after pruning: have %v", have)
	}
}

// M-49: a chain that is closed is not looked at again until the index tells of it. The index tells
// when it is opened again and when it is pruned, also by a removal that goes on while the catalog
// is opened.
func TestCatalogLooksAtWhatTheIndexTellsOf(t *testing.T) {
	root := searchable(t)
	if err := openCatalog(t, root).Close(); err != nil {
		t.Fatal(err)
	}
	count := func() int { return len(find(t, openCatalog(t, root), audit.Query{})) }
	before := count()
	for range 2 { // the second time it is known as one that was closed twice
		chain := openChain(t, options(t, root, "a"))
		if have := count(); have != before+1 {
			t.Fatalf("of a chain that was opened again: have %d, want %d", have, before+1)
		}
		if err := chain.Commit(t.Context(), call(nacre.KindCallBegin, "more")); err != nil {
			t.Fatal(err)
		}
		closeChain(t, chain)
		if have := count(); have != before+3 {
			t.Fatalf("of one that was closed again: have %d, want %d", have, before+3)
		}
		before += 3
	}
	third := openChain(t, options(t, root, "c"))
	closeChain(t, third)
	if have := find(t, openCatalog(t, root), audit.Query{}); len(have) != before+2 {
		t.Fatalf("with one that is new: have %v", have)
	}
	file, err := os.Stat(audit.CatalogPath(root))
	if err != nil {
		t.Fatal(err)
	}
	o := pruneOptions(t, root, day(20))
	o.AtEachStep(func() { openCatalog(t, root) })
	if _, err := audit.Prune(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	have := find(t, openCatalog(t, root), audit.Query{})
	if after, err := os.Stat(audit.CatalogPath(root)); err != nil || len(have) != 0 || !os.SameFile(file, after) {
		t.Errorf("after pruning: have %v, %v; or all was read anew", have, err)
	}
}

func TestCatalogRefusesAChainThatWasTouched(t *testing.T) {
	s := sample{t: t, root: searchable(t)}
	s.edit("a/000001.jsonl", `"r1"`, `"r2"`)
	if c, err := audit.OpenCatalog(t.Context(), s.root); err == nil {
		_ = c.Close()
		t.Error("opened")
	}
}

// BenchmarkFind looks for ten records among 20,000: floor reads all of the
// chains, ours asks the catalog, opening it first.
func BenchmarkFind(b *testing.B) {
	root := filepath.Join(benchDir(b), "audit")
	for n := range 20 {
		o := options(b, root, fmt.Sprint("c", n))
		o.SegmentBytes = 0
		c := openChain(b, o)
		for i := range 1000 {
			r := benchRecord()
			if i == 500 && n < 10 {
				r.Kind = nacre.KindCallReject
			}
			if err := c.Append(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
		closeChain(b, c)
	}
	openCatalog(b, root)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			for n := range 20 {
				err := audit.Read(root, fmt.Sprint("c", n), func(audit.Entry) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			c, err := audit.OpenCatalog(b.Context(), root)
			if err != nil {
				b.Fatal(err)
			}
			page, _, err := c.Find(b.Context(), audit.Query{Kind: nacre.KindCallReject})
			if err != nil || len(page) != 10 {
				b.Fatal(len(page), err)
			}
			_ = c.Close()
		}
	})
}
