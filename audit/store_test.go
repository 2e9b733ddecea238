package audit_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// store is one place for records, and how they are read back once it is closed.
type store struct {
	nacre.Recorder
	end func() []nacre.Record
}

// stores are the three of K-20; each must pass the same tests.
func stores() map[string]func(t *testing.T) store {
	return map[string]func(t *testing.T) store{
		"JSONL segments": func(t *testing.T) store {
			root := filepath.Join(t.TempDir(), "audit")
			c := openChain(t, options(t, root, "a"))
			return store{c, func() []nacre.Record { closeChain(t, c); return readBack(t, root) }}
		},
		"SQLite": func(t *testing.T) store {
			path := filepath.Join(t.TempDir(), "audit.sqlite")
			c, err := audit.OpenSQLite(t.Context(), path, options(t, "", "a"))
			if err != nil {
				t.Fatal(err)
			}
			return store{c, func() []nacre.Record { closeChain(t, c); return readBack(t, exported(t, path)) }}
		},
		"memory": func(*testing.T) store {
			m := audit.Memory(10_000)
			return store{m, m.Records}
		},
	}
}

// exported is the database as a folder of chains.
func exported(t *testing.T, path string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "audit")
	if err := audit.ExportSQLite(t.Context(), path, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// readBack verifies a root with both verifiers and returns the records of chain a but its own.
func readBack(t *testing.T, root string) (records []nacre.Record) {
	t.Helper()
	bothAgree(t, root, true)
	err := audit.Read(root, "a", func(e audit.Entry) error {
		if e.Kind != nacre.KindChainOpen && e.Kind != nacre.KindChainClose {
			records = append(records, e.Record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// K-20: what every store promises.
func TestStoresKeepWhatTheyTake(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for i := range 300 {
				r := call(nacre.KindCallBegin, fmt.Sprint(i))
				r.Time, r.Detail = day(1).Add(time.Duration(i)), []byte(fmt.Sprintf(`{"n":%d}`, i))
				put := s.Append
				if i%7 == 0 {
					put = s.Commit
				}
				if err := put(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			records := s.end()
			if len(records) != 300 {
				t.Fatalf("have %d records", len(records))
			}
			for i, r := range records {
				if string(r.Detail) != fmt.Sprintf(`{"n":%d}`, i) || !r.Time.Equal(day(1).Add(time.Duration(i))) || r.Topic != "tool.invoke.créer" {
					t.Errorf("record %d: have %+v", i, r)
				}
			}
		})
	}
}

func TestStoresRefuseTheSame(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			for what, r := range map[string]nacre.Record{
				"no kind": {Time: day(1)}, "a float": {Kind: "x", Time: day(1), Detail: []byte(`{"a":1.5}`)},
				"a key twice": {Kind: "x", Time: day(1), Detail: []byte(`{"a":1,"a":2}`)}, "stage 100": {Kind: "x", Time: day(1), Stage: 100},
			} {
				if err := s.Append(t.Context(), r); !errors.Is(err, audit.ErrRecord) {
					t.Errorf("%s: have %v", what, err)
				}
			}
			if err := s.Commit(gone, nacre.Record{Kind: "x", Time: day(1)}); !errors.Is(err, context.Canceled) {
				t.Errorf("a context that ended: have %v", err)
			}
			if have := s.end(); len(have) != 0 {
				t.Errorf("have %v", have)
			}
		})
	}
}

func TestStoresTakeManyWriters(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					for i := range 25 {
						r := nacre.Record{Kind: "x", Time: day(1), Source: fmt.Sprint(w), Stage: i%99 + 1}
						if err := s.Commit(context.Background(), r); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			last := map[string]int{}
			records := s.end()
			for _, r := range records {
				if r.Stage != last[r.Source]+1 {
					t.Errorf("writer %s: %d after %d", r.Source, r.Stage, last[r.Source])
				}
				last[r.Source] = r.Stage
			}
			if len(records) != 400 {
				t.Errorf("have %d records", len(records))
			}
		})
	}
}

func TestSQLiteChainGoesOnAndHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.sqlite")
	for n := range 3 {
		c, err := audit.OpenSQLite(t.Context(), path, options(t, "", "a"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := audit.OpenSQLite(t.Context(), path, options(t, "", "b")); !errors.Is(err, audit.ErrLocked) {
			t.Errorf("second writer: have %v", err)
		}
		writeCalls(t, c, 30)
		if _, err := c.Head(t.Context()); err != nil {
			t.Error(err)
		}
		closeChain(t, c)
		if have := len(readBack(t, exported(t, path))); have != 60*(n+1) {
			t.Errorf("have %d records", have)
		}
	}
}

func TestTamperedDatabaseIsFound(t *testing.T) {
	for _, statement := range []string{
		"UPDATE line SET text = replace(text, '\"n\":1', '\"n\":2') WHERE chain = 'a' AND seq = 3", "DELETE FROM line WHERE chain = 'a' AND seq = 3",
		"DELETE FROM line WHERE chain = 'a' AND seq > 5", "DELETE FROM head WHERE chain = 'a'", "DELETE FROM line WHERE chain = 'a'; DELETE FROM head WHERE chain = 'a'",
		"UPDATE head SET text = (SELECT text FROM head WHERE chain = 'index') WHERE chain = 'a'", "UPDATE line SET text = text || x'0a' WHERE chain = 'a'",
	} {
		path := filepath.Join(t.TempDir(), "audit.sqlite")
		c, err := audit.OpenSQLite(t.Context(), path, options(t, "", "a"))
		if err != nil {
			t.Fatal(err)
		}
		writeCalls(t, c, 4)
		closeChain(t, c)
		if err := audit.ExecCatalog(path, statement); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(t.TempDir(), "audit")
		if err := audit.ExportSQLite(t.Context(), path, root); err != nil {
			if !errors.Is(err, audit.ErrTampered) {
				t.Errorf("%s: have %v", statement, err)
			}
			continue
		}
		bothAgree(t, root, false)
	}
}

// K-21: a sync that fails stops every later call, and what was said to be
// durable is.
func TestFailingSyncStopsTheChain(t *testing.T) {
	for _, after := range []int{1, 2, 5} {
		o := options(t, filepath.Join(t.TempDir(), "audit"), "a")
		audit.FailSync(&o, after+1, syscall.EIO) // the first is the opening's
		c := openChain(t, o)
		done := 0
		var err error
		for ; err == nil && done < 100; done++ {
			err = c.Commit(t.Context(), nacre.Record{Kind: "x"})
		}
		if !errors.Is(err, syscall.EIO) || done != after {
			t.Errorf("have %v after %d", err, done)
		}
		for _, again := range []error{c.Append(t.Context(), nacre.Record{Kind: "x"}), c.Commit(t.Context(), nacre.Record{Kind: "x"}), c.Close(t.Context())} {
			if !errors.Is(again, syscall.EIO) {
				t.Errorf("later: have %v", again)
			}
		}
		if _, err := audit.Verify(o.Root, "a", trust(t)); !errors.Is(err, audit.ErrUnsealed) {
			t.Errorf("have %v", err)
		}
		if err := audit.Seal(t.Context(), options(t, o.Root, "a")); err != nil {
			t.Error(err)
		}
		bothAgree(t, o.Root, true)
	}
}

// Clocks that step back or stand still do not matter to the chain.
func TestClockStepsDoNotBreakTheChain(t *testing.T) {
	o := options(t, filepath.Join(t.TempDir(), "audit"), "a")
	var n atomic.Int64 // the writer asks for the time too
	o.Now = func() time.Time { return day(20 - int(n.Add(1)%7)) }
	c := openChain(t, o)
	writeCalls(t, c, 20)
	closeChain(t, c)
	bothAgree(t, o.Root, true)
	key := hex.EncodeToString(testKeys(t).Public())
	runPython(t, testpeer.Need(t, "python3"), 0, "--root", o.Root, "--public-key", key, "--chain", "a")
}
