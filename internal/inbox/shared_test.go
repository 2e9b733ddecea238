package inbox_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// storeAt is the store at an address, as a process of its own has it.
func storeAt(t testing.TB, address string) *database.Store {
	t.Helper()
	s := database.NewStore(func() string { return address }, "acme")
	t.Cleanup(s.Close)
	return s
}

// joined is the box of a node, whose end does not depend on the test's.
func joined(t *testing.T, address, name string) *inbox.Box {
	t.Helper()
	b, err := inbox.Join(t.Context(), storeAt(t, address), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// X-01, M-52: the box of several nodes keeps what the box of one machine promises. What a node left
// is the next one's, in its order, with how often it was begun, and work begins twice at most. A
// group has its limit, and a name is one process's.
func TestNodesShareABox(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one := joined(t, address, "one")
	keep(t, one, message(3), message(1), message(2))
	if err := one.Keep(message(4)); !errors.Is(err, inbox.ErrFull) {
		t.Errorf("have %v, want it full", err)
	}
	if _, err := inbox.Join(t.Context(), storeAt(t, address), "one", limit); !errors.Is(err, node.ErrTaken) {
		t.Errorf("have %v, want the name to be taken", err)
	}
	for _, id := range []string{"m1", "m3"} {
		if m, err := one.Begin(id); err != nil || m.Begun != 1 {
			t.Errorf("have %+v, %v", m, err)
		}
	}
	if err := one.Remove("m3"); err != nil {
		t.Fatal(err)
	}
	two := joined(t, address, "two")
	if have := takeOver(t, two); len(have) != 0 {
		t.Errorf("have %v taken from a node that is alive", have)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	var taken []inbox.Message
	testwait.Until(t, "what the node left", func() bool { taken = append(taken, takeOver(t, two)...); return len(taken) == 2 })
	if ids(taken) != "m1 m2" || taken[0].Begun != 1 || taken[1].Begun != 0 || taken[0].Lost() || taken[1].Session != "k2" {
		t.Fatalf("have %+v", taken)
	}
	if have, want := string(taken[1].Payload), string(message(2).Payload); unescaped(t, have) != unescaped(t, want) {
		t.Errorf("have %s, want %s", have, want)
	}
	if m, err := two.Begin("m1"); err != nil || !m.Lost() {
		t.Errorf("have %+v, %v", m, err)
	}
	if _, err := two.Begin("m1"); !errors.Is(err, inbox.ErrUnknown) {
		t.Errorf("have %v, want a third time refused", err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	each(t, address)
}

// each is one node's, of several that take over at once.
func each(t *testing.T, address string) {
	t.Helper()
	var mu sync.Mutex
	var all []inbox.Message
	var work sync.WaitGroup
	for n := range 4 {
		b := joined(t, address, fmt.Sprint("k", n))
		t.Cleanup(func() { _ = b.Close() }) // the server ends with the test
		work.Go(func() {
			taken, err := b.TakeOver(dead)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, taken...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if len(all) != 2 {
		t.Errorf("have %q, want each message once", ids(all))
	}
}

// M-48, X-01: a message that comes again is taken once by all nodes, also after it was dealt with.
// What its channel was told was not taken may come again.
func TestNodesKnowWhatComesAgain(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := joined(t, address, "one"), joined(t, address, "two")
	t.Cleanup(func() { _, _ = one.Close(), two.Close() })
	keep(t, one, repeatable(1), repeatable(2))
	other := repeatable(1)
	other.Session = "k99"
	for name, b := range map[string]*inbox.Box{"its node": one, "another node": two} {
		if err := b.Keep(other); !errors.Is(err, inbox.ErrRepeated) {
			t.Errorf("%s: have %v, want it to be known", name, err)
		}
	}
	if err := errors.Join(one.Remove(repeatable(1).ID), one.Discard(repeatable(2).ID)); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*inbox.Box{"its node": one, "another node": two} {
		if err := b.Keep(other); !errors.Is(err, inbox.ErrRepeated) {
			t.Errorf("%s, after it was dealt with: have %v, want it to be known", name, err)
		}
	}
	keep(t, two, repeatable(2))
}

// a node that was declared over begins and keeps nothing, not even in the moment
// before another node has taken over what it had.
func TestANodeThatIsOverBeginsNothing(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one := joined(t, address, "one")
	t.Cleanup(func() { _ = one.Close() })
	keep(t, one, message(1))
	pool, err := database.Open(t.Context(), address, "acme")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	over, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// what another node's look does, and has not committed yet
	if tag, err := over.Exec(t.Context(), `UPDATE nacre_node SET epoch = epoch + 1 WHERE name = 'one'`); err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	begun := make(chan error, 1)
	go func() {
		_, err := one.Begin("m1")
		begun <- err
	}()
	testwait.Until(t, "a beginning that waits for the look", func() bool {
		var waiting int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%nacre_message SET begun%'`).Scan(&waiting)
		return err == nil && waiting == 1 || len(begun) == 1
	})
	if err := over.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; !errors.Is(err, node.ErrOver) {
		t.Errorf("have %v, want the beginning refused", err)
	}
	if err := one.Keep(message(2)); !errors.Is(err, node.ErrOver) {
		t.Errorf("have %v, want nothing taken", err)
	}
}
