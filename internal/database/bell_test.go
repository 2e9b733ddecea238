package database_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// what rings at one machine wakes who listens for its topic at another. A connection that is
// lost comes again by itself, and wakes everybody, who may have missed something.
func TestRingsWakeOtherMachines(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	store := database.NewStore(func() string { return address }, "acme")
	t.Cleanup(store.Close)
	rings, end := store.Listen("apples")
	defer end()
	others, endOthers := store.Listen("pears")
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	<-rings // it listens
	<-others
	ring := func(topic string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), database.Ring, topic); err != nil {
			t.Fatal(err)
		}
	}
	ring("apples")
	<-rings
	ring("pears")
	<-others
	select {
	case <-rings:
		t.Error("another topic's ring wakes too")
	default:
	}
	endOthers()
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	<-rings // the connection is lost: look
	testwait.Until(t, "the bell to listen again", func() bool {
		ring("apples")
		select {
		case <-rings:
		default:
			return false
		}
		var listening bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%')`).Scan(&listening)
		return err == nil && listening
	})
}
