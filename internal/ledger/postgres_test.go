package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// server is the address of the PostgreSQL of the tests that run on one, and stores hold, by
// the path that a ledger would have, its database.
var (
	server string
	mu     sync.Mutex
	stores = map[string]*database.Store{}
)

// openAt opens the ledger of a test, in a file or in a store.
func openAt(t *testing.T, path string) (*ledger.Ledger, error) {
	t.Helper()
	if server == "" {
		return ledger.Open(t.Context(), path, clock)
	}
	return ledger.OpenOn(t.Context(), storeOf(t, path), "5f0c1e2d3b4a", clock)
}

func storeOf(t *testing.T, path string) *database.Store {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if stores[path] == nil {
		address := testpeer.Database(t, server, fmt.Sprintf("d%d", len(stores)))
		stores[path] = database.NewStore(func() string { return address }, "acme")
		t.Cleanup(stores[path].Close)
	}
	return stores[path]
}

// rawAt says a statement past the ledger.
func rawAt(t *testing.T, path, statement string) error {
	t.Helper()
	if server == "" {
		return raw(t, path, statement)
	}
	pool, err := storeOf(t, path).Connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(t.Context(), statement)
	return err
}

// inStore tells whether a word is in one of the texts.
func inStore(t *testing.T, path, word string) (is bool) {
	t.Helper()
	pool, err := storeOf(t, path).Connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM (SELECT task FROM specs UNION ALL SELECT prompt FROM prompts
		UNION ALL SELECT summary FROM runs UNION ALL SELECT reason FROM changes) AS texts(text) WHERE position($1 IN text) > 0)`, word).Scan(&is)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// what holds for a ledger in a file holds for the one that machines share.
func TestOnPostgres(t *testing.T) {
	server = testpeer.Postgres(t)
	t.Cleanup(func() { server = "" })
	for name, holds := range map[string]func(*testing.T){
		"run": TestRun, "transitions": TestTransitions, "interrupted": TestAnInterruptedRunBlocksNobody, "taken": TestTaken,
		"bad rows": TestBadRows, "outcomes over time": TestOutcomeOverTime, "a person decides": TestAPersonDecides,
		"tree": TestTree, "list": TestList, "rules are in the tables": TestRulesAreInTheFile, "side by side": TestSideBySide,
		"forgotten": TestTextsAreForgotten, "efforts": TestEffortsOfAProject, "evidence": TestEvidenceOfAPower,
	} {
		t.Run(name, holds)
	}
	t.Run("a node that is over", overWritesNothing)
	t.Run("no text", textsThatAreNone)
	t.Run("machines", machinesKeepTheirSessions)
}

// sessions of two machines may have one name: what is done by it is done to a machine's own.
func machinesKeepTheirSessions(t *testing.T) {
	path := file(t)
	one := open(t, path)
	two, err := ledger.OpenOn(t.Context(), storeOf(t, path), "a1b2c3d4e5f6", clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	if err := errors.Join(one.Begin(t.Context(), start("a1", "", 1)), two.Begin(t.Context(), start("a2", "", 2))); err != nil {
		t.Fatal(err)
	}
	at := func(string, string) (string, uint64, string, error) {
		a := anchor(9)
		return a.Chain, a.Seq, a.Hash, nil
	}
	if err := one.InterruptSession(t.Context(), "s1", "killed", at); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*ledger.Ledger{one, two} {
		list, err := l.Of(t.Context(), []string{"s1"})
		if err != nil || len(list) != 1 || list[0].Session != "s1" {
			t.Fatalf("have %v, %v", list, err)
		}
		if interrupted := list[0].Status == ledger.Interrupted; interrupted != (l == one) {
			t.Errorf("%s is %s", list[0].ID, list[0].Status)
		}
	}
	all, err := one.List(t.Context(), ledger.Filter{})
	if err != nil || len(all) != 2 || all[1].Session != "s1" || !strings.HasSuffix(all[0].Session, "/s1") {
		t.Errorf("have %v, %v", all, err)
	}
	if have, err := one.Show(t.Context(), "s1"); err != nil || have.ID != "a1" {
		t.Errorf("have %v, %v", have.ID, err)
	}
}

// a node that is over writes nothing.
func overWritesNothing(t *testing.T) {
	path := file(t)
	l := open(t, path)
	over := errors.New("over")
	storeOf(t, path).Under(database.Lease{Statement: "SELECT true WHERE false", Over: over})
	if err := l.Begin(t.Context(), start("a1", "", 1)); !errors.Is(err, over) {
		t.Errorf("have %v", err)
	}
	storeOf(t, path).Under(database.Lease{Statement: "SELECT true"})
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Error(err)
	}
	if list, err := l.List(t.Context(), ledger.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("have %d rows, %v", len(list), err)
	}
}

// What an agent says that no text of PostgreSQL holds ends its run all the same.
func textsThatAreNone(t *testing.T) {
	l := open(t, file(t))
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Fatal(err)
	}
	e := end(ledger.Done)
	e.Summary = "a\x00b\xffc"
	if err := l.Finish(t.Context(), "a1", e); err != nil {
		t.Fatal(err)
	}
	if have, err := l.Show(t.Context(), "a1"); err != nil || have.Summary != "a\ufffdb\ufffdc" {
		t.Errorf("have %q, %v", have.Summary, err)
	}
}
