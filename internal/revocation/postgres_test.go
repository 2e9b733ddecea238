package revocation_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/testpeer"
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
	t.Run("a row that is gone", keptWhereSeen)
}

// openOn opens a folder on a machine that shares its revocations.
func openOn(dir string, store *database.Store) (*revocation.List, error) {
	l, err := revocation.Open(dir)
	if err == nil {
		l.Share(shared.On(store, l.Keep))
	}
	return l, err
}

// witness is a machine that is admitted, and all of them are.
type witness struct{ key ed25519.PrivateKey }

func (w witness) Name(context.Context) (string, error) { return "one", nil }

func (w witness) Sign(_ context.Context, statement []byte) ([]byte, error) {
	return ed25519.Sign(w.key, statement), nil
}

func (w witness) Signers(context.Context) (database.Verify, error) {
	return func(_ string, statement, signature []byte) error {
		if !ed25519.Verify(w.key.Public().(ed25519.PublicKey), statement, signature) {
			return errors.New("nobody signed it")
		}
		return nil
	}, nil
}

func machine(t *testing.T, of string) *revocation.List {
	t.Helper()
	l, err := openOn(folder(t), storeOf(t, of))
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
	l, err := openOn(dir, storeOf(t, "own"))
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
		l, err := openOn(folder(t), store)
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

// K-12, X-01: what a machine signed stays revoked where it was revoked and where it was refused, when its row is gone. What
// somebody else wrote into the database counts while it is there, and not for good.
func keptWhereSeen(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var lists []*revocation.List
	for range 3 {
		store := storeOf(t, "kept")
		store.Signs(witness{key})
		l, err := openOn(folder(t), store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		lists = append(lists, l)
	}
	one, two, other := lists[0], lists[1], lists[2]
	revoke(t, one, "", "a", now.Add(time.Hour))
	revoke(t, one, "", "b", now.Add(time.Hour))
	revoke(t, two, "", "b", time.Time{}) // for longer, and with one signature for both
	revoke(t, one, "t-1", "", time.Time{})
	store := storeOf(t, "kept")
	pool, err := store.Room(t.Context(), "revocation", shared.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	write := func(statement string) {
		t.Helper()
		if done, err := pool.Exec(t.Context(), statement); err != nil || done.RowsAffected() == 0 {
			t.Fatalf("%s: %v, %v", statement, done, err)
		}
	}
	write(`INSERT INTO nacre_revocation (id, principal) VALUES ('', 'mine'), ('t-2', '')`)
	write(`INSERT INTO nacre_revocation (id, principal, until, signed) SELECT '', 'moved', until, signed FROM nacre_revocation WHERE principal = 'a'`)
	write(`INSERT INTO nacre_revocation (id, principal, signed) SELECT 't-3', '', signed FROM nacre_revocation WHERE id = 't-1'`)
	for _, what := range [][2]string{{"", "a/s"}, {"", "b"}, {"t-1/x", ""}, {"", "mine"}, {"t-2", ""}, {"", "moved"}, {"t-3", ""}} {
		if !revoked(t, two, what[0], what[1], now) {
			t.Errorf("%q is not revoked while its row is there", what)
		}
	}
	write(`DELETE FROM nacre_revocation`)
	for _, c := range []struct {
		at            *revocation.List
		id, principal string
		later         time.Duration
		want          bool
	}{
		{one, "", "a/s", 0, true}, {two, "", "a/s", 0, true}, {two, "", "b", 2 * time.Hour, true}, {two, "", "a", 2 * time.Hour, false}, {two, "t-1/x", "", 0, true},
		{two, "", "mine", 0, false}, {two, "t-2", "", 0, false}, {two, "", "moved", 0, false}, {two, "t-3", "", 0, false}, {other, "", "a", 0, false},
	} {
		if have := revoked(t, c.at, c.id, c.principal, now.Add(c.later)); have != c.want {
			t.Errorf("%q, %q after %v: have %t, want %t", c.id, c.principal, c.later, have, c.want)
		}
	}
	ids, principals, err := two.Kept(now)
	if err != nil || fmt.Sprint(ids, principals) != "[  t-1] [b a ]" {
		t.Errorf("kept are %q, %q: %v", ids, principals, err)
	}
}
