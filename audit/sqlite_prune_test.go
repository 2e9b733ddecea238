package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// rowsOn writes a closed chain into a database, with records of the given days.
func rowsOn(t *testing.T, path, chain string, days ...int) {
	t.Helper()
	o := options(t, "", chain)
	now := day(days[0])
	o.Now = func() time.Time { return now }
	c, err := audit.OpenSQLite(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
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

func prunedDatabase(t *testing.T) (path string, o audit.PruneOptions) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.sqlite")
	rowsOn(t, path, "old", 1)
	rowsOn(t, path, "long", 2, 20)
	rowsOn(t, path, "young", 25)
	o = pruneOptions(t, "", day(10))
	o.SegmentsOf(2048)
	return path, o
}

// F-43, K-33: a database of chains is pruned and verified where it is: what went is named
// in a signed checkpoint, what is left goes on, and both verifiers agree.
func TestADatabaseIsPrunedInPlace(t *testing.T) {
	path, o := prunedDatabase(t)
	list, err := audit.PruneSQLite(t.Context(), path, o)
	if err != nil || len(list) != 2 || !list[0].Whole || list[1].Whole || list[0].Records != 14 || list[1].Records < 8 {
		t.Fatalf("have %+v, %v", list, err)
	}
	for range 2 { // as it is, and after its chains went on
		report, err := audit.VerifySQLite(t.Context(), path, trust(t))
		if err != nil || len(report.Chains) < 3 {
			t.Errorf("have %+v, %v", report, err)
		}
		bothAgree(t, exported(t, path), true)
		rowsOn(t, path, "old", 26) // which was removed whole, and begins again
		rowsOn(t, path, "long", 26)
	}
	o.Before = day(27)
	if list, err = audit.PruneSQLite(t.Context(), path, o); err != nil || len(list) != 3 {
		t.Errorf("have %+v, %v", list, err)
	}
	bothAgree(t, exported(t, path), true)
	if again, err := audit.PruneSQLite(t.Context(), path, o); err != nil || len(again) > 0 {
		t.Errorf("have %+v, %v: nothing is left to remove", again, err)
	}
	if left, err := filepath.Glob(path + ".pruning*"); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// K-20: a removal that is cut short anywhere has removed nothing, and one that nobody
// signed is found.
func TestADatabaseThatWasPrunedByHalfIsAsItWas(t *testing.T) {
	path, o := prunedDatabase(t)
	stop := errors.New("cut short")
	steps := 1
	for n := 1; n <= steps; n++ {
		cut := o
		cut.StopAt(n, stop)
		if err := os.Mkdir(path+".pruning", 0o700); err != nil { // of one that was killed
			t.Fatal(err)
		}
		switch _, err := audit.PruneSQLite(t.Context(), path, cut); {
		case errors.Is(err, stop):
			steps = n + 1
		case err != nil:
			t.Fatal(err)
		default: // there are no more steps: it went through
			continue
		}
		report, err := audit.VerifySQLite(t.Context(), path, trust(t))
		if err != nil {
			t.Fatalf("after step %d: %v", n, err)
		}
		for _, c := range report.Chains {
			if c.Pruned > 0 {
				t.Errorf("after step %d: %+v", n, c)
			}
		}
	}
	if steps < 5 {
		t.Errorf("cut short at %d steps only", steps)
	}
	for _, statement := range []string{
		"DELETE FROM line WHERE chain = 'long' AND seq = (SELECT min(seq) FROM line WHERE chain = 'long')", "DELETE FROM line WHERE chain = 'young' AND seq < 5",
		"DELETE FROM line WHERE chain = 'young'; DELETE FROM head WHERE chain = 'young'",
	} {
		copied := filepath.Join(t.TempDir(), "audit.sqlite")
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(copied, data, 0o600)
		}
		if err = errors.Join(err, audit.ExecCatalog(copied, statement)); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.VerifySQLite(t.Context(), copied, trust(t)); !errors.Is(err, audit.ErrTampered) {
			t.Errorf("%s: have %v", statement, err)
		}
	}
}

func TestADatabaseWithAWriterIsNotPruned(t *testing.T) {
	path, o := prunedDatabase(t)
	c, err := audit.OpenSQLite(t.Context(), path, options(t, "", "lives"))
	if err != nil {
		t.Fatal(err)
	}
	writeCalls(t, c, 3)
	if _, err := audit.PruneSQLite(t.Context(), path, o); !errors.Is(err, audit.ErrLocked) {
		t.Errorf("have %v", err)
	}
	if _, err := audit.VerifySQLite(t.Context(), path, trust(t)); !errors.Is(err, audit.ErrUnsealed) {
		t.Errorf("while it is written: %v", err)
	}
	closeChain(t, c)
}
