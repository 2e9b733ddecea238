package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// onPostgres begins the names of the tests that run on a PostgreSQL.
const onPostgres = "TestOnPostgres/"

// server is the address of the PostgreSQL of all these tests, and nodes hold, by the address of its
// database, each test's.
var (
	server string
	nodes  = map[string]*node.Node{}
)

// newDatabase is the address of a test's own database, in which it is one node.
func newDatabase(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("d%d", len(nodes))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	nodes[u.String()] = join(t, u.String(), "one")
	return u.String()
}

func join(t *testing.T, address, name string) *node.Node {
	t.Helper()
	pool, err := database.Open(t.Context(), address, "acme")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n, err := node.Join(t.Context(), pool, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Leave(context.Background()) }) // it may be over
	return n
}

// what holds for schedules in a file holds for those in the database that nodes share.
func TestOnPostgres(t *testing.T) {
	server = testpeer.Postgres(t)
	for name, holds := range map[string]func(*testing.T){
		"from claim to end": TestTickFromClaimToEnd, "missed": TestMissed, "a clock that jumps": TestClockThatJumps,
		"forgotten ticks": TestForgottenTicksDoNotComeAgain, "no tick beside another": TestNoTickBesideAnother,
		"claims change hands": TestClaimsChangeHands, "sessions that ended": TestATickWhoseSessionHadEnded,
		"carried on once": TestAnInterruptedTickIsCarriedOnOnce, "gives way": TestAnInterruptedTickGivesWay,
		"left for long": TestClaimsLeftForLong, "run now": TestRunNow, "removed while it runs": TestRemovedWhileItRuns,
		"served": TestServed, "listed": TestAddedIsListed, "refused": TestDraftsRefused, "limits": TestLimits,
		"announced": TestAnnounce, "a zone that is gone": TestZoneThatIsGone, "outcomes": TestOutcomeIsBounded,
		"only forward": TestTicksOnlyMoveForward,
	} {
		t.Run(name, holds)
	}
	t.Run("nodes", nodesShareSchedules)
}

// a tick is one node's. One whose node was declared over is carried on by another, and
// whoever comes back can say nothing of it. Who is no node adds and shows, and claims nothing.
func nodesShareSchedules(t *testing.T) {
	c := newClock(t, "2026-11-21 05:30:00")
	address := newDatabase(t)
	second := join(t, address, "two")
	one := open(t, address, c)
	two, err := schedule.OpenOn(t.Context(), second, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	looker, err := schedule.OpenShared(t.Context(), address, "acme", c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = looker.Close() })
	task := add(t, looker, draft(calendar.Cron, "0 6 * * *"))
	if err := two.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := looker.Serve(t.Context()); err == nil {
		t.Error("a process that is no node serves")
	}
	if served, err := looker.Served(); err != nil || !served {
		t.Errorf("have %t, %v, want it served", served, err)
	}
	c.set(t, "2026-11-21 06:00:00")
	begun, _ := claimed(t, one)
	if err := one.Start(t.Context(), begun.Tick); err != nil {
		t.Fatal(err)
	}
	if left, err := two.Recover(t.Context(), unended); err != nil || len(left) != 0 {
		t.Errorf("have %v, %v from a node that is alive", left, err)
	}
	if _, err := second.Pool().Exec(t.Context(), `UPDATE nacre_node SET epoch = epoch + 1, until = '-infinity' WHERE name = 'one'`); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"finish": func() error { return one.Finish(t.Context(), begun.Tick, schedule.Done, "") },
		"claim":  func() error { _, err := one.RunNow(t.Context(), task.ID); return err },
	} {
		if err := do(); !errors.Is(err, node.ErrOver) {
			t.Errorf("%s: have %v, want the node over", what, err)
		}
	}
	testwait.Until(t, "the tick", func() bool {
		left, err := two.Recover(t.Context(), unended)
		return err == nil && len(left) == 1 && left[0].State == schedule.Waiting
	})
	again, at := claimed(t, two)
	if at != "2026-11-21 06:00:00" || again.Begun != 1 {
		t.Errorf("have %+v of %q", again, at)
	}
	if err := errors.Join(two.Start(t.Context(), again.Tick), two.Finish(t.Context(), again.Tick, schedule.Done, "")); err != nil {
		t.Error(err)
	}
	wantTimes(t, "rows", states(t, looker, task.ID), "21T06:00:00 done")
}
