package model_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// server is the address of the PostgreSQL of the tests that run on one, and books hold, by the
// folder that a book would have, its database.
var (
	server string
	books  = map[string]string{}
)

// book is one of a machine's own: in a folder, or in the store of several machines.
func book(t testing.TB, dir string, zone *time.Location, now func() time.Time) *model.Daybook {
	t.Helper()
	if server == "" {
		return model.NewDaybook(dir, zone, now)
	}
	return model.NewSharedDaybook(storeAt(t, dir), zone, now)
}

func storeAt(t testing.TB, dir string) *database.Store {
	t.Helper()
	if books[dir] == "" {
		books[dir] = testpeer.Database(t, server, fmt.Sprintf("d%d", len(books)))
	}
	address := books[dir]
	s := database.NewStore(func() string { return address }, "acme")
	t.Cleanup(s.Close)
	return s
}

// what holds for the day's budget between processes holds between machines.
func TestOnPostgres(t *testing.T) {
	server = testpeer.Postgres(t)
	t.Cleanup(func() { server = "" })
	t.Run("midnight", TestADayRefillsAtMidnightAndNeverByAStepBack)
	t.Run("groups", TestGroupsHaveTheirOwnBudgetsAndShareOne)
	t.Run("machines that race", machinesThatRace)
	t.Run("a machine that is over, and a store that is away", machinesThatMayNotSpend)
}

// machinesThatRace make 100 calls at once, from four machines: the day's budget is never promised
// twice, and what the calls cost is what is gone of it.
func machinesThatRace(t *testing.T) {
	const limit = 300_000
	dir := t.TempDir()
	var calls sync.WaitGroup
	var accepted atomic.Int64
	for range 4 {
		g := spender(t, dir, func(o *model.Options) { o.DayLimits.Group = limit })
		for range 25 {
			calls.Go(func() {
				if spend(t.Context(), g).Code == 200 {
					accepted.Add(1)
				}
			})
		}
	}
	calls.Wait()
	rooms, err := book(t, dir, time.UTC, func() time.Time { return noon }).Rooms("g1", budget.DayLimits{Group: limit})
	if err != nil || len(rooms) != 1 {
		t.Fatalf("have %v, %v", rooms, err)
	}
	n := accepted.Load()
	if n == 0 || rooms[0].Held != 0 || rooms[0].Left != limit-n*paid || rooms[0].Left > most {
		t.Errorf("%d calls of %d left %+v", n, paid, rooms[0])
	}
}

func machinesThatMayNotSpend(t *testing.T) {
	store := storeAt(t, t.TempDir())
	days := model.NewSharedDaybook(store, time.UTC, func() time.Time { return noon })
	g := spender(t, "", func(o *model.Options) { o.Days, o.DayLimits.Group = days, 1<<40 })
	if w := spend(t.Context(), g); w.Code != 200 {
		t.Errorf("have %d %s", w.Code, w.Body)
	}
	store.Under(database.Lease{Statement: "SELECT true WHERE false", Over: errors.New("over")})
	if w := spend(t.Context(), g); w.Code == 200 {
		t.Error("a machine that is over spent something")
	}
	away := model.NewSharedDaybook(database.NewStore(func() string { return "postgres://nacre@/x?host=/nonexistent" }, "acme"), time.UTC, time.Now)
	if w := spend(t.Context(), spender(t, "", func(o *model.Options) { o.Days, o.DayLimits.Group = away, 1<<40 })); w.Code == 200 {
		t.Error("money was spent of which nobody can tell what is left")
	}
}
