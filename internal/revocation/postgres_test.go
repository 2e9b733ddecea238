package revocation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/token"
)

// stores are the databases of the tests that run on a PostgreSQL, by their folders.
var (
	server string
	stores = map[string]string{}
)

// storeOf is a connection of its own to the database of a test's folder: as another machine.
func storeOf(t testing.TB, dir string) *database.Store {
	t.Helper()
	if server == "" {
		return nil
	}
	if stores[dir] == "" {
		stores[dir] = testpeer.Database(t, server, fmt.Sprintf("d%d", len(stores)))
	}
	store := database.NewStore(func() string { return stores[dir] }, "acme")
	t.Cleanup(store.Close)
	return store
}

// what holds for revocations in a file holds for those that machines share; and K-12
// between machines, each with a folder of its own.
func TestOnPostgres(t *testing.T) {
	server = testpeer.Postgres(t)
	t.Cleanup(func() { server = "" })
	for name, holds := range map[string]func(*testing.T){
		"restart": TestARevocationSurvivesARestart, "seen at the next question": TestEveryReaderSeesARevocationAtItsNextQuestion,
		"writers at once": TestWritersAtOnceLoseNothing, "sweep": TestASweepOnDiskNeverUnrevokes, "bad": TestABadRevocationChangesNothing,
	} {
		t.Run(name, holds)
	}
	t.Run("between machines", betweenMachines)
	t.Run("an own file", ownFileCounts)
	t.Run("a store that is away", awayRevokesAll)
}

// openOn opens a folder on a machine that shares its revocations.
func openOn(dir string, shared token.Revocations) (*revocation.List, error) {
	l, err := revocation.Open(dir)
	if err == nil {
		l.Share(shared)
	}
	return l, err
}

func machine(t *testing.T, of string) *revocation.List {
	t.Helper()
	l, err := openOn(folder(t), shared.On(storeOf(t, of)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func betweenMachines(t *testing.T) {
	one, two := machine(t, "shared"), machine(t, "shared")
	if revoked(t, two, "t-1", "a/b", now) {
		t.Error("revoked before it was")
	}
	revoke(t, one, "", "a", now.Add(time.Hour))
	revoke(t, one, "t-1", "", now.Add(time.Hour))
	if !revoked(t, two, "", "a/b", now) || !revoked(t, two, "t-1/x", "", now.Add(2*time.Hour)) {
		t.Error("what one machine revoked is not revoked at another one")
	}
	if revoked(t, two, "", "a/b", now.Add(time.Hour)) || revoked(t, two, "t-2", "ab", now) {
		t.Error("more is revoked than was")
	}
	revoke(t, two, "", "a", now) // shortens nothing
	if !revoked(t, one, "", "a", now) {
		t.Error("a revocation was shortened")
	}
}

func ownFileCounts(t *testing.T) {
	dir := folder(t)
	own, err := revocation.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	revoke(t, own, "before", "", time.Time{})
	l, err := openOn(dir, shared.On(storeOf(t, "own")))
	if err != nil {
		t.Fatal(err)
	}
	if !revoked(t, l, "before", "", now) {
		t.Error("what was revoked before the machine had a store is let in")
	}
}

func awayRevokesAll(t *testing.T) {
	for name, address := range map[string]string{"away": "postgres://nacre@/x?host=/nonexistent", "unnamed": ""} {
		store := database.NewStore(func() string { return address }, "acme")
		l, err := openOn(folder(t), shared.On(store))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := l.Revoked("t-1", "a", now); !is || !errors.Is(err, shared.ErrAsked) {
			t.Errorf("%s: have %t, %v", name, is, err)
		}
		if err := l.Revoke("t-1", "", now); err == nil {
			t.Errorf("%s: a revocation that is nowhere was taken for done", name)
		}
	}
}
