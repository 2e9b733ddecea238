package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// a node that is cut off in the middle of a write, on a connection that nobody ends, keeps
// its locks for a moment only. The others declare it over, and nothing of the write is kept.
func TestANodeThatIsCutOffWhileItWritesIsDeclaredOver(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire := testpeer.NewWire(t, address)
	joined := func(name, address string) (*node.Node, *pgxpool.Pool) {
		pool, err := database.Open(t.Context(), address, "acme")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		n, err := node.Join(t.Context(), pool, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Leave(context.Background()) }) // one is over, and cannot
		return n, pool
	}
	one, pulled := joined("one", wire.Address)
	two, pool := joined("two", address)

	const anyKey = 7
	writing, over, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	goesOn := sync.OnceFunc(func() { close(over) })
	t.Cleanup(goesOn) // before the pools are closed, which wait for it
	go func() {
		wrote <- database.Alone(t.Context(), pulled, anyKey, func(tx pgx.Tx) error {
			var held bool
			lease := one.Lease()
			err := tx.QueryRow(t.Context(), lease.Statement, lease.Args...).Scan(&held)
			wire.Stall()
			close(writing)
			<-over
			return err
		})
	}()
	<-writing
	declared := func() (yes bool) {
		err := errors.Join(two.Settle(t.Context()),
			pool.QueryRow(t.Context(), `SELECT epoch > $1 FROM nacre_node WHERE name = 'one'`, one.Epoch).Scan(&yes))
		return err == nil && yes
	}
	testwait.Until(t, "one to be declared over", declared)
	goesOn()
	if err := <-wrote; err == nil {
		t.Error("the write of a node that is over was kept")
	}
}
