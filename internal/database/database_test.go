package database_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// an address that would be spoken to in the clear, or that is none, is refused
// before anything is dialled, and no error repeats it.
func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]error{
		"":                                      database.ErrAddress,
		"hunter2":                               database.ErrAddress,
		"host=/tmp password=hunter2":            database.ErrAddress,
		"postgres://nacre:hunter2@[::1/x":       database.ErrAddress,
		"postgres://nacre:hunter2@db.example/x": database.ErrPlain,
		"postgres://nacre:hunter2@db.example/x?sslmode=disable":   database.ErrPlain,
		"postgres://nacre:hunter2@db.example/x?sslmode=require":   database.ErrPlain,
		"postgres://nacre:hunter2@127.0.0.1,db.example/x":         database.ErrPlain,
		"postgres://nacre:hunter2@/x?host=/nonexistent":           database.ErrAway,
		"postgres://nacre:hunter2@127.0.0.1:1/x?sslmode=disable":  database.ErrAway,
		"postgres://nacre:hunter2@/x?host=/nonexistent&pool_x=ab": database.ErrAway,
	} {
		_, err := database.Open(t.Context(), address, "acme")
		if !errors.Is(err, want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: have %v, want %v", address, err, want)
		}
	}
}

// processes that open at once migrate once; an older nacre is refused; what
// cannot be written is told as what it is.
func TestMigrations(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	migrations := []string{"CREATE TABLE one (n integer)", database.Contract + "CREATE TABLE two (n integer)"}
	open := func(to []string) error {
		pool, err := database.Open(context.Background(), address, "acme")
		if err != nil {
			return err
		}
		defer pool.Close()
		return database.Migrate(context.Background(), pool, "test", to)
	}
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			if err := open(migrations[:1]); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if err := open(migrations); err != nil {
		t.Fatal(err)
	}
	if err := open(migrations[:1]); !errors.Is(err, database.ErrNewer) {
		t.Errorf("have %v, want a newer nacre's", err)
	}
	if err := open(append(migrations, "CREATE TABLE three (n integer)", "no statement")); err == nil {
		t.Error("a migration that failed was taken for done")
	}
	if err := open(migrations); err != nil {
		t.Errorf("a migration that failed changed something: %v", err)
	}
	address += "&default_transaction_read_only=on"
	if err := open(migrations); !errors.Is(err, database.ErrReadOnly) {
		t.Errorf("have %v, want it read-only", err)
	}
}

// a nacre goes on with tables to which a newer one only added, and leaves them as they are.
// It may not go on where a newer one took something away, nor with tables of before that was told
// apart.
func TestOlderNodesGoOnWithWhatWasOnlyAddedTo(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	added := []string{"CREATE TABLE one (n integer)", "ALTER TABLE one ADD m integer NOT NULL DEFAULT 7", "CREATE TABLE two (n integer)"}
	taken := append(slices.Clone(added), database.Contract+"ALTER TABLE one DROP m")
	more := append(slices.Clone(taken), "CREATE TABLE three (n integer)")
	open := func(to []string) error {
		pool, err := database.Open(context.Background(), address, "acme")
		if err != nil {
			return err
		}
		defer pool.Close()
		return database.Migrate(context.Background(), pool, "test", to)
	}
	for _, step := range []struct {
		says string
		to   []string
		want error
		have int
	}{
		{"the first", added[:1], nil, 1}, {"one that adds", added, nil, 3}, {"the first beside it", added[:1], nil, 3},
		{"one that takes away", taken, nil, 4}, {"the first after it", added[:1], database.ErrNewer, 4}, {"the one before it", added, database.ErrNewer, 4},
		{"one that adds again", more, nil, 5}, {"the one before that", taken, nil, 5}, {"the first, still", added[:1], database.ErrNewer, 5},
	} {
		if err := open(step.to); !errors.Is(err, step.want) {
			t.Errorf("%s: have %v, want %v", step.says, err, step.want)
		}
		state, err := database.Look(t.Context(), address, "acme")
		if have := state.Versions["test"]; err != nil || have.Tables != step.have || have.Accepts(len(step.to)) != (step.want == nil) {
			t.Errorf("%s: have %+v, %v, want version %d", step.says, have, err, step.have)
		}
	}
	pool, err := database.Open(t.Context(), address, "acme")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE nacre_version DROP oldest"); err != nil {
		t.Fatal(err)
	}
	if state, err := database.Look(t.Context(), address, "acme"); err != nil || state.Versions["test"].Accepts(len(taken)) {
		t.Errorf("have %+v, %v of tables of which nobody said who may use them", state, err)
	}
	if err := open(taken); !errors.Is(err, database.ErrNewer) {
		t.Errorf("have %v, want them refused", err)
	}
}

// a database is one installation's: of several that open it at once, one has it, and
// the others are told so, now and later. A name that is none is refused before.
func TestADatabaseIsOneInstallations(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	open := func(installation string) error {
		pool, err := database.Open(context.Background(), address, installation)
		if err == nil {
			pool.Close()
		}
		return err
	}
	for _, name := range []string{"", "Acme", "a b", strings.Repeat("a", 65)} {
		if err := open(name); !errors.Is(err, database.ErrUnnamed) {
			t.Errorf("%q: have %v, want it refused", name, err)
		}
	}
	names := []string{"acme", "globex", "initech"}
	have := make([]error, len(names))
	var work sync.WaitGroup
	for n, name := range names {
		work.Go(func() { have[n] = open(name) })
	}
	work.Wait()
	owners := 0
	for n, name := range names {
		switch err := have[n]; {
		case err == nil:
			owners++
		case !errors.Is(err, database.ErrForeign):
			t.Errorf("%s: have %v, want another installation's", name, err)
		}
		if again := open(name); (again == nil) != (have[n] == nil) {
			t.Errorf("%s: have %v first and %v then", name, have[n], again)
		}
	}
	if owners != 1 {
		t.Errorf("have %d owners, want 1", owners)
	}
}
