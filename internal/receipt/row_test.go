package receipt_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
)

// U-25: a row stands on the first opening that has begun. nacre may have been killed before the
// first record of the one in front, whose chain is empty or not there.
func TestAWorkWhoseFirstOpeningNeverBeganHasItsRow(t *testing.T) {
	paths := registry.Paths{State: t.TempDir()}
	keys, err := audit.LoadKeys(filepath.Join(paths.State, "keys"))
	check(t, err)
	inst := &installation.Installation{Registry: registry.New(paths), Keys: keys, Options: installation.Options{Now: time.Now}}
	open := func(name string, records ...nacre.Record) {
		chain, err := audit.Open(t.Context(), audit.Options{Root: paths.Audit(), Chain: name, Keys: keys, Now: time.Now})
		check(t, err)
		for _, r := range records {
			check(t, chain.Commit(t.Context(), r))
		}
		check(t, chain.Close(t.Context()))
	}
	open("s1.2")
	open("s1.3", nacre.Record{Kind: nacre.KindSessionOpen, Source: "core", Detail: []byte(`{"kind":"run","brain":"replay"}`)})
	l, err := ledger.Open(t.Context(), filepath.Join(paths.State, "ledger.sqlite"), time.Now)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	row, err := receipt.EnterWork(t.Context(), inst, l, receipt.Worked{Session: "s1", Work: "s1.1", Chains: []string{"s1.1", "s1.2", "s1.3"}, Words: "go"})
	check(t, err)
	if row.Role != "run" || row.Session != "s1" {
		t.Errorf("have %+v", row)
	}
	if _, err := receipt.EnterWork(t.Context(), inst, l, receipt.Worked{Session: "s1", Work: "s1.1", Chains: []string{"s1.1", "s1.2"}}); err == nil {
		t.Error("a work of which nothing has begun has a row")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
