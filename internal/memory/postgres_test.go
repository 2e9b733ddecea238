package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// server is the address of the PostgreSQL of the tests that run on one, and stores hold, by
// the path that a memory would have, its database.
var (
	server string
	mu     sync.Mutex
	stores = map[string]*database.Store{}
)

const machineID = "5f0c1e2d3b4a"

// openAt opens the memory of a test, in a file or in a store.
func openAt(t testing.TB, path string, o memory.Options) (*memory.Store, error) {
	t.Helper()
	if server == "" {
		return memory.Open(t.Context(), path, o)
	}
	return memory.OpenOn(t.Context(), storeOf(t, path), machineID, o)
}

func storeOf(t testing.TB, path string) *database.Store {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if stores[path] == nil {
		schema := fmt.Sprintf("s%d", len(stores))
		pool, err := pgxpool.New(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		address := server + "&search_path=" + schema
		stores[path] = database.NewStore(func() string { return address }, "acme")
		t.Cleanup(stores[path].Close)
	}
	return stores[path]
}

func poolOf(t testing.TB, path string) *pgxpool.Pool {
	t.Helper()
	pool, err := storeOf(t, path).Connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// inDataFolder tells which of the words are in the bytes of a store's tables, and of what the server knows of
// them. All of it is brought to the server's disk before.
func inDataFolder(t testing.TB, path string, words ...string) (found []string) {
	t.Helper()
	if _, err := poolOf(t, path).Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	rows, err := poolOf(t, path).Query(t.Context(), `SELECT current_setting('data_directory') || '/' || pg_relation_filepath(c.oid) FROM pg_class c
		WHERE c.relfilenode <> 0 AND (c.relnamespace = to_regnamespace(current_schema()) OR c.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())))
		UNION ALL SELECT current_setting('data_directory') || '/' || pg_relation_filepath(to_regclass('pg_statistic'))`)
	if err != nil {
		t.Fatal(err)
	}
	files, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ToLower(data)
		for _, w := range words {
			if bytes.Contains(data, []byte(strings.ToLower(w))) && !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
	}
	return found
}

// what holds for a memory in a file holds for the one that machines share.
func TestOnPostgres(t *testing.T) {
	server = testpeer.Postgres(t)
	t.Cleanup(func() { server = "" })
	for name, holds := range map[string]func(*testing.T){
		"add": TestAdd, "refusals": TestAddRefusals, "supersession": TestSupersession, "trusted": TestTrustedEntriesAreTheOperators,
		"session limits": TestSessionLimits, "links": TestLinks, "groups": TestGroups, "purge": TestPurge, "labels": TestRecallIsLabelledByWhoVouchesForIt,
		"groups in one place": TestGroupsOfOneFile, "fixes": TestTheFixComesWithTheFailure,
		"old names": TestAnOldNameFindsTheNewEntry, "search follows": TestSearchFollowsTheFile, "secrets": TestSecretsAreNotStored,
		"embeddings": TestEmbeddings, "transfer": TestTransfer, "search": TestSearchText, "filters": TestSearchFilters,
		"filters follow": TestFiltersFollowTheFile, "expiry": TestExpiry, "brief": TestBriefLimits, "working memory": TestAWorkingMemoryIsFoundByWhoWorksWithIt,
		"erasure cascades": TestForgetCascades, "a session is erased": TestForgetASession, "erased by a text": TestForgetMatches,
		"erased through what is gone": TestForgetThroughWhatIsGone, "who was shown": TestForgetNamesWhoWasShown,
		"found by the database": TestTheDatabaseFindsWordsByItself,
	} {
		t.Run(name, holds)
	}
	t.Run("bytes", nothingErasedStaysInTheTables)
	t.Run("machines", machinesKeepTheirSessions)
	t.Run("a node that is over", overWritesNothing)
	t.Run("what a machine has", whatAMachineHasIsBrought)
}

// M-57: what is erased is in the bytes of no table, no index and no statistics of the server's. Where somebody
// reads the tables meanwhile, the erasure says that traces linger, and whoever opens the memory next removes them.
func nothingErasedStaysInTheTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	o := options(c)
	o.Model, o.Embed = "ideas", func(_ context.Context, texts []string) (all [][]float32, err error) {
		for _, text := range texts {
			all = append(all, idea(text))
		}
		return all, nil
	}
	s := open(t, path, o)
	drafts := make([]memory.Draft, 1000) // so many that the index is kept
	for i := range drafts {
		drafts[i] = memory.Draft{Type: "fact", Content: fmt.Sprintf("walnut %d", i)}
	}
	if _, err := s.AddAll(t.Context(), operator, drafts); err != nil {
		t.Fatal(err)
	}
	id := add(t, s, operator, "fact", "the quokka sleeps", "quokkatag")
	lesson := memory.Lesson{Project: "/p", Task: "feed the quokka well and early", Cause: "quokkacheck", Source: "run-1", Content: "the quokka bit"}
	if ids, err := memory.LearnFailures(t.Context(), s, operator, []memory.Lesson{lesson}); err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	if have := contents(search(t, s, memory.Query{Text: "quokka", Limit: 1})); have == "" {
		t.Fatal("nothing is found")
	}
	pool := poolOf(t, path)
	if _, err := pool.Exec(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	if have := inDataFolder(t, path, "quokka"); len(have) == 0 {
		t.Fatal("proves nothing: the word is in no file")
	}
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SELECT count(*) FROM memory_lessons`); err != nil {
		t.Fatal(err)
	}
	f := memory.Forget{Match: "quokka"}
	e, err := s.Doom(t.Context(), f)
	if err != nil || len(e.Entries) != 2 || e.Entries[0].ID != id {
		t.Fatalf("have %+v, %v", e, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.Forget(ctx, f, e) }()
	testwait.Until(t, "the rows to go", func() bool {
		var marks int
		return pool.QueryRow(t.Context(), `SELECT count(*) FROM memory_scrub`).Scan(&marks) == nil && marks == 1
	})
	stop()
	if err := <-done; err == nil {
		t.Error("what a reader kept was said to be gone")
	}
	if have := contents(search(t, s, memory.Query{Text: "quokka"})); strings.Contains(have, "quokka") {
		t.Errorf("found %s", have)
	}
	if left, err := s.Traces(t.Context()); err != nil || !left {
		t.Errorf("have %v, %v, want traces", left, err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, o)
	if left, err := again.Traces(t.Context()); err != nil || left {
		t.Errorf("have %v, %v, want no traces", left, err)
	}
	if have := inDataFolder(t, path, "quokka"); len(have) > 0 {
		t.Errorf("the files hold %q", have)
	}
	if have := search(t, again, memory.Query{Text: "walnut 7", Limit: 5}); len(have) != 5 {
		t.Errorf("have %s", contents(have))
	}
}

// sessions of two machines may have one name: limits and erasures are each machine's own, and
// another one's session is named by the machine.
func machinesKeepTheirSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	one := open(t, path, options(c))
	o := options(c)
	o.NewID = nil
	two, err := memory.OpenOn(t.Context(), storeOf(t, path), "a1b2c3d4e5f6", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	for n := range memory.MaxStores {
		add(t, one, agent, "fact", fmt.Sprint("of one ", n))
	}
	add(t, two, agent, "fact", "of two")
	if have, err := one.List(t.Context(), memory.Filter{Session: "a1b2c3d4e5f6/s-1"}); err != nil || len(have) != 1 || have[0].Provenance.Session != "a1b2c3d4e5f6/s-1" {
		t.Errorf("have %+v, %v", have, err)
	}
	e := forget(t, two, memory.Forget{Session: "s-1"})
	if len(e.Entries) != 1 || fmt.Sprint(e.Sessions) != "[s-1]" {
		t.Errorf("have %s of %v", why(e), e.Sessions)
	}
	if have, err := one.List(t.Context(), memory.Filter{Session: "s-1"}); err != nil || len(have) != memory.MaxStores {
		t.Errorf("have %d entries, %v", len(have), err)
	}
	if groups, err := memory.Groups(t.Context(), storeOf(t, path)); err != nil || fmt.Sprint(groups) != "[main]" {
		t.Errorf("have %v, %v", groups, err)
	}
}

// a node that is over writes nothing.
func overWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	over := errors.New("over")
	storeOf(t, path).Under(database.Lease{Statement: "SELECT true WHERE false", Over: over})
	if _, err := s.Add(t.Context(), agent, memory.Draft{Type: "fact", Content: "too late"}); !errors.Is(err, over) {
		t.Errorf("have %v", err)
	}
	storeOf(t, path).Under(database.Lease{Statement: "SELECT true"})
	if have := search(t, s, memory.Query{}); len(have) > 0 {
		t.Errorf("have %s", contents(have))
	}
}

// what a machine had in a file is moved into the store once, with all that an erasure follows. What was
// erased in the store meanwhile does not come back.
func whatAMachineHasIsBrought(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	file, err := memory.Open(t.Context(), path, options(c))
	if err != nil {
		t.Fatal(err)
	}
	first := add(t, file, agent, "fact", "the gate is green")
	second := replace(t, file, agent, "the gate is blue", first)
	derived := add(t, file, memory.Writer{Session: "s-2"}, "preference", "paint gates blue", "paint")
	derive(t, file, derived, second)
	if err := errors.Join(file.Recalled(t.Context(), memory.Writer{Session: "s-3"}, []string{second}), file.Close()); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path, options(c))
	if n, err := memory.Bring(t.Context(), s, path); err != nil || n != 3 {
		t.Fatalf("have %d, %v", n, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
	if have := contents(search(t, s, memory.Query{Text: "gate blue"})); have != "the gate is blue|paint gates blue" {
		t.Errorf("have %s", have)
	}
	e := forget(t, s, memory.Forget{ID: first})
	if have := why(e); len(e.Entries) != 3 || fmt.Sprint(e.Sessions) != "[s-1 s-2 s-3]" {
		t.Errorf("have %s of %v", have, e.Sessions)
	}
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := memory.Bring(t.Context(), s, path); err != nil || n != 0 {
		t.Errorf("what was erased came back: %d, %v", n, err)
	}
}
