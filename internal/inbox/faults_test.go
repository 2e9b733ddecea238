package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// direct is a connection of the test's own to a database, whatever happens to the nodes'.
func direct(t *testing.T, address string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func run(t *testing.T, pool *pgxpool.Pool, statement string, arguments ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement, arguments...); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, pool *pgxpool.Pool, query string, arguments ...any) (n int) {
	t.Helper()
	testwait.Until(t, "the database", func() bool {
		err := pool.QueryRow(t.Context(), query, arguments...).Scan(&n)
		var refused *pgconn.ConnectError // as where more come at once than it takes
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return err == nil
	})
	return n
}

func waitingAt(b *inbox.Box) string { return ids(b.Waiting()) }

// looks lets a box look until the look gets through.
func looks(t *testing.T, b *inbox.Box) {
	t.Helper()
	testwait.Until(t, "a look", func() bool { _, err := b.TakeOver(dead); return err == nil })
}

// the answer to an insert is lost, and so is the connection on which the message would be
// taken away again. One that its channel cannot bring again is gone, since the channel was told so.
// One that it brings again, at any node, is there once.
func TestMessagesWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire, pool := testpeer.NewWire(t, address), direct(t, address)
	one, two := joined(t, wire.Address, "one"), joined(t, address, "two")
	t.Cleanup(func() { _, _ = one.Close(), two.Close() })
	for _, m := range []inbox.Message{message(1), repeatable(2)} {
		wire.Mute(m.ID)
		kept := make(chan error, 1)
		go func() { kept <- one.Keep(m) }()
		testwait.Until(t, "the row", func() bool {
			return number(t, pool, `SELECT count(*) FROM nacre_message WHERE id = $1`, m.ID) == 1
		})
		wire.Cut()
		if err := <-kept; err == nil {
			t.Errorf("%s: a message was taken whose answer was lost", m.ID)
		}
		wire.Heal()
		if m.Once {
			again := m
			again.Session = "k99"
			if err := two.Keep(again); !errors.Is(err, inbox.ErrRepeated) {
				t.Errorf("have %v, want it known to the other node", err)
			}
		}
		looks(t, one)
	}
	if have, want := waitingAt(one), repeatable(2).ID; have != want {
		t.Errorf("have %q waiting, want %q", have, want)
	}
	if n := number(t, pool, `SELECT count(*) FROM nacre_message`); n != 1 {
		t.Errorf("have %d rows, want 1", n)
	}
	if m, err := one.Begin(repeatable(2).ID); err != nil || m.Session != "k2" {
		t.Errorf("have %+v, %v", m, err)
	}
	keep(t, one, message(1))
}

// yesterday's database is restored while a node is cut off, and another process
// joins under its name with the epoch that the node has. The node is over all the same.
func TestEpochsOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire, pool := testpeer.NewWire(t, address), direct(t, address)
	old := joined(t, wire.Address, "one")
	keep(t, old, message(1), repeatable(2))
	wire.Cut()
	run(t, pool, `UPDATE nacre_node SET epoch = epoch - 1, until = clock_timestamp()`)
	one := joined(t, address, "one")
	t.Cleanup(func() { _, _ = one.Close(), old.Close() })
	wire.Heal()
	testwait.Until(t, "an answer", func() bool {
		_, err := old.Begin("m1")
		if err == nil {
			t.Error("a message was begun by the holder of a name that another process has")
		}
		return err == nil || errors.Is(err, node.ErrOver)
	})
	if err := old.Keep(message(3)); !errors.Is(err, node.ErrOver) {
		t.Errorf("have %v, want nothing taken", err)
	}
	_ = old.Remove(repeatable(2).ID)
	if n := number(t, pool, `SELECT count(*) FROM nacre_message`); n != 2 {
		t.Errorf("have %d rows, want 2", n)
	}
	testwait.Until(t, "the node to learn that it is over", func() bool {
		select {
		case <-old.Over():
			return true
		default:
			return false
		}
	})
}

// insert writes down messages as a node did that is gone.
func insert(t *testing.T, pool *pgxpool.Pool, messages ...inbox.Message) {
	t.Helper()
	for _, m := range messages {
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		run(t, pool, `INSERT INTO nacre_message (id, node, epoch, begun, taken, message) VALUES ($1, 'gone', 1, 0, $2, $3)`, m.ID, m.Taken, data)
	}
}

// one look takes over everything that a node left, in its order.
func TestOneLookTakesAll(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one := joined(t, address, "one")
	t.Cleanup(func() { _ = one.Close() })
	var left []inbox.Message
	for n := range 250 {
		left = append(left, message(n))
	}
	insert(t, direct(t, address), left...)
	if have, want := ids(takeOver(t, one)), ids(left); have != want {
		t.Errorf("have %d messages, want %d: %s", len(strings.Fields(have)), len(left), have)
	}
}

// a row that cannot be read is told of once, is put aside for a person, and is nobody's
// afterwards. What lies beside it is taken.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool, one := direct(t, address), joined(t, address, "one")
	insert(t, pool, message(1), message(2), message(3))
	run(t, pool, `UPDATE nacre_message SET message = 'no message' WHERE id = 'm1'`)
	run(t, pool, `UPDATE nacre_message SET id = 'm7' WHERE id = 'm3'`)
	taken, err := one.TakeOver(dead)
	if ids(taken) != "m2" || err == nil || !strings.Contains(err.Error(), "m1") || !strings.Contains(err.Error(), "m7") {
		t.Errorf("have %q, %v", ids(taken), err)
	}
	looks(t, one)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two := joined(t, address, "two")
	t.Cleanup(func() { _ = two.Close() })
	if have := ids(takeOver(t, two)); have != "m2" {
		t.Errorf("have %q", have)
	}
	if n := number(t, pool, `SELECT count(*) FROM nacre_message WHERE id IN ('m1', 'm7')`); n != 2 {
		t.Errorf("have %d of the damaged rows, want 2", n)
	}
	have, err := inbox.SharedSessions(t.Context(), storeAt(t, address))
	if want := map[nacre.SessionID]bool{"k2": true}; err != nil || !maps.Equal(have, want) {
		t.Errorf("the sessions of what is kept are %v, %v, want %v", have, err, want)
	}
}

// writes that wait for the database, more than there are connections, stop neither
// the heartbeat of their node nor what it asks its box about other messages.
func TestWritesThatWait(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool := direct(t, address)
	one, err := inbox.Join(t.Context(), storeAt(t, address), "one", 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	keep(t, one, message(1))
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback(context.Background()) })
	done := make(chan error, 6)
	for n := range cap(done) { // the same ids, in a transaction that does not end
		if _, err := other.Exec(t.Context(), `INSERT INTO nacre_known (id, session) VALUES ($1, 'k99')`, repeatable(n).ID); err != nil {
			t.Fatal(err)
		}
	}
	for n := range cap(done) {
		go func() { done <- one.Keep(repeatable(n)) }()
	}
	blocked := func() int {
		return number(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO nacre_known%'`)
	}
	testwait.Until(t, "the writes", func() bool { return blocked() > 1 })
	if have := waitingAt(one); have != "m1" || blocked() == 0 {
		t.Errorf("have %q from a box of which %d write", have, blocked())
	}
	var first, until time.Time
	read := func(at *time.Time) {
		if err := pool.QueryRow(t.Context(), `SELECT until FROM nacre_node`).Scan(at); err != nil {
			t.Error(err)
		}
	}
	read(&first)
	testwait.Until(t, "a heartbeat", func() bool { read(&until); return until.After(first) || blocked() == 0 })
	if blocked() == 0 {
		t.Error("the node had no heartbeat while its writes waited")
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// whoever joins under the name of a node that is alive is told so, also where the
// last answer does not come in time.
func TestANameThatIsTakenWhileTheDatabaseIsSlow(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool, one := direct(t, address), joined(t, address, "one")
	t.Cleanup(func() { _ = one.Close() })
	var before time.Time
	if err := pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	joining := make(chan error, 1)
	go func() {
		_, err := inbox.Join(t.Context(), storeAt(t, address), "one", limit)
		joining <- err
	}()
	// It prepares the statement, is refused, and asks again after that.
	asked := map[time.Time]bool{}
	testwait.Until(t, "a refusal", func() bool {
		var at time.Time
		err := pool.QueryRow(t.Context(), `SELECT query_start FROM pg_stat_activity WHERE query LIKE 'INSERT INTO nacre_node%' AND query_start > $1`, before).Scan(&at)
		if err == nil {
			asked[at] = true
		}
		return len(asked) == 3 || len(joining) == 1
	})
	slow, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slow.Rollback(context.Background()) })
	if _, err := slow.Exec(t.Context(), `SELECT FROM nacre_node FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if err := <-joining; !errors.Is(err, node.ErrTaken) {
		t.Errorf("have %v, want the name taken", err)
	}
}

// what is known of messages that were dealt with is bounded by its number, and
// nothing is forgotten of one that waits.
func TestTheKnownAreBounded(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool, one := direct(t, address), joined(t, address, "one")
	t.Cleanup(func() { _ = one.Close() })
	keep(t, one, repeatable(1))
	run(t, pool, `UPDATE nacre_known SET at = now() - interval '2 years'`)
	run(t, pool, `INSERT INTO nacre_known SELECT 'x' || n, 'k', now() - n * interval '1 second' FROM generate_series(1, 120000) n`)
	takeOver(t, one)
	if n := number(t, pool, `SELECT count(*) FROM nacre_known`); n != 100_001 {
		t.Errorf("have %d, want 100,000 and the one that waits", n)
	}
	if err := one.Keep(repeatable(1)); !errors.Is(err, inbox.ErrRepeated) {
		t.Errorf("have %v, want it known", err)
	}
}

// after its own lease had all but ended, a node does not declare others over: what
// held it up may have held them up. It waits for as long as a lease lasts first.
func TestASlowBeatIsNoProofOfDeath(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool, one := direct(t, address), joined(t, address, "one")
	t.Cleanup(func() { _ = one.Close() })
	run(t, pool, `INSERT INTO nacre_node (name, epoch, until) VALUES ('two', 1, clock_timestamp())`)
	epoch := func() int { return number(t, pool, `SELECT epoch FROM nacre_node WHERE name = 'two'`) }
	run(t, pool, `UPDATE nacre_node SET steady = clock_timestamp() + interval '1 hour' WHERE name = 'one'`)
	takeOver(t, one)
	if have := epoch(); have != 1 {
		t.Errorf("have epoch %d, want nobody declared over", have)
	}
	run(t, pool, `UPDATE nacre_node SET steady = clock_timestamp() - interval '1 hour', until = clock_timestamp() WHERE name = 'one'`)
	testwait.Until(t, "a beat", func() bool {
		return number(t, pool, `SELECT count(*) FROM nacre_node WHERE name = 'one' AND until > clock_timestamp()`) == 1
	})
	if n := number(t, pool, `SELECT count(*) FROM nacre_node WHERE name = 'one' AND steady > clock_timestamp() - interval '30 minutes'`); n != 1 {
		t.Error("a beat that came late was taken for one in time")
	}
	testwait.Until(t, "the other to be declared over", func() bool { looks(t, one); return epoch() == 2 })
	looks(t, one)
	if have := epoch(); have != 2 {
		t.Errorf("have epoch %d, want who is over declared so once", have)
	}
}

// a failure is seen three seconds after it at the latest.
func TestFailuresAreSeenInTime(t *testing.T) {
	t.Parallel()
	one := joined(t, testpeer.Postgres(t), "one")
	t.Cleanup(func() { _ = one.Close() })
	if have := node.Length + one.Every(); have > 3*time.Second {
		t.Errorf("have %s", have)
	}
}

// the network is slow or cut, or a server's side of each connection ends. A node goes
// on with what it has, and each message is there once.
func TestNetworksThatFail(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	wire, pool := testpeer.NewWire(t, address), direct(t, address)
	one, err := inbox.Join(t.Context(), storeAt(t, wire.Address), "one", 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	var want []string
	for n, spoil := range []func(){
		func() { wire.Slow(40 * time.Millisecond) },
		func() { wire.Heal() },
		wire.HalfClose,
		func() { wire.Cut(); _, _ = one.Begin(want[0]); wire.Heal() },
	} {
		spoil()
		m := repeatable(n)
		want = append(want, m.ID)
		testwait.Until(t, fmt.Sprint("message ", n), func() bool {
			err := one.Keep(m)
			return err == nil || errors.Is(err, inbox.ErrRepeated)
		})
	}
	looks(t, one)
	have := strings.Fields(waitingAt(one))
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
	if n := number(t, pool, `SELECT count(*) FROM nacre_message`); n != len(want) {
		t.Errorf("have %d rows, want %d", n, len(want))
	}
	select {
	case <-one.Over():
		t.Error("a node that nobody declared over ended")
	default:
	}
}
