// Package node holds the lease by which one nacre serve of several is alive.
//
// It promises that one name is one process's at a time, and that a post is one node's at a time, in one epoch ([Node.Hold]). A node which
// does not renew its lease for [Length], on the clock of the database, is over for all others. Each time a name is joined it has a higher
// epoch and an incarnation that no other holder had. So what an earlier holder writes afterwards can be told and refused, also after a
// restore of the database. A node which others declared over learns of it ([Node.Over]) and does not come back. It does not know what nodes
// do.
package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
)

const (
	// Length is how long a lease lasts that is not renewed: failures are seen after it.
	Length = 2500 * time.Millisecond
	beat   = 500 * time.Millisecond
	// patience is how long one beat waits for its answer: one that is lost leaves time for
	// another before the lease ends.
	patience = 1 * time.Second
	// late is how little is left of a lease after a beat that came late.
	late = Length / 2
)

// Why a node may not act.
var (
	ErrTaken = errors.New("another nacre serve holds this name and is alive: use another --node")
	ErrOver  = errors.New("the lease of this node is over: other nodes carry on what it had taken")
)

// Table is the table of leases, as it was at first.
const Table = `CREATE TABLE IF NOT EXISTS nacre_node (name text PRIMARY KEY, epoch bigint NOT NULL, until timestamptz NOT NULL)`

// Migrations go on from Table. An incarnation is drawn each time that a name is joined: epochs come again after a restore of yesterday's
// database. The index makes the epoch part of a key. So a beat, which leaves it, waits for no write that holds the row FOR KEY SHARE, and
// whoever ends the epoch does.
func Migrations() []string {
	return []string{Table, `ALTER TABLE nacre_node ADD incarnation uuid NOT NULL DEFAULT gen_random_uuid(),
		ADD steady timestamptz NOT NULL DEFAULT clock_timestamp()`,
		`CREATE UNIQUE INDEX nacre_node_epoch ON nacre_node (name, epoch)`,
		`CREATE TABLE nacre_post (name text PRIMARY KEY, node text NOT NULL, epoch bigint NOT NULL)`}
}

// Prepare brings the table of leases forward, for whoever asks of nodes and is none.
func Prepare(ctx context.Context, pool *pgxpool.Pool) error {
	return database.Migrate(ctx, pool, "node", Migrations())
}

// Node is one that joined. It is safe for concurrent use.
type Node struct {
	Name  string
	Epoch int64
	// Incarnation tells this holder of the name from each other one, whatever their epochs.
	Incarnation string

	pool *pgxpool.Pool
	over chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// Join makes this process the holder of a name, and renews its lease until
// [Node.Leave]. A holder that died is waited for as long as its lease lasts.
func Join(ctx context.Context, pool *pgxpool.Pool, name string) (*Node, error) {
	if _, err := nacre.ParsePluginName(name); err != nil {
		return nil, fmt.Errorf("--node %.80q: use 1–64 lower-case letters, digits, _ or - for the name", name)
	}
	if err := Prepare(ctx, pool); err != nil {
		return nil, err
	}
	n := &Node{Name: name, pool: pool, over: make(chan struct{})}
	if err := n.wait(ctx); err != nil {
		return nil, err
	}
	n.begin(ctx)
	return n, nil
}

// unnamed begins the names of those that nobody gave one, and that no node can have.
const unnamed = "."

// Attend makes this process a node without a name, for as long as its sessions last: it takes no
// message and no post, and is over like any other. The tables are there.
func Attend(ctx context.Context, pool *pgxpool.Pool) (*Node, error) {
	n := &Node{Name: unnamed + strings.ToLower(rand.Text()), pool: pool, over: make(chan struct{})}
	if err := n.claim(ctx); err != nil {
		return nil, database.Classified(err)
	}
	n.begin(ctx)
	return n, nil
}

// begin beats until [Node.Leave].
func (n *Node) begin(ctx context.Context) {
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.done.Go(func() { n.renew(beating) })
}

// wait claims the name for as long as it takes a lease to end. An answer that does not come
// then changes nothing of what the ones before said.
func (n *Node) wait(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, Length+2*beat)
	defer cancel()
	taken := false
	for {
		err := n.claim(wait)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, pgx.ErrNoRows):
			taken = true
		case taken && wait.Err() != nil:
			return cmp.Or(ctx.Err(), ErrTaken)
		default:
			return database.Classified(err)
		}
		select {
		case <-wait.Done():
			return cmp.Or(ctx.Err(), ErrTaken)
		case <-time.After(beat):
		}
	}
}

// claim takes the name where nobody's lease on it lasts.
func (n *Node) claim(ctx context.Context) error {
	return n.pool.QueryRow(ctx, `INSERT INTO nacre_node AS n (name, epoch, until) VALUES ($1, 1, clock_timestamp() + $2::interval)
		ON CONFLICT (name) DO UPDATE SET epoch = n.epoch + 1, until = excluded.until, incarnation = excluded.incarnation, steady = excluded.steady
		WHERE n.until <= clock_timestamp() RETURNING epoch, incarnation::text`, n.Name, Length).Scan(&n.Epoch, &n.Incarnation)
}

// renew beats until it is told to end, or the lease is over. A database that is away
// is asked again: its lease goes on where nobody declared it over meanwhile. Beats have a
// connection of their own: what else the node writes may hold all others.
func (n *Node) renew(ctx context.Context) {
	var conn *pgx.Conn
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			hangUp(ctx, conn)
			return
		case <-tick.C:
		}
		held, err := n.beat(ctx, &conn)
		if err == nil && !held {
			close(n.over)
			hangUp(ctx, conn)
			return
		}
	}
}

// hangUp ends a connection, which is broken most often.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beat)
	defer cancel()
	_ = conn.Close(ctx)
}

// beat renews the lease once, and tells whether it is still this node's. One that comes
// late begins the time anew for which the node was steady: what held it up, on the
// database's clock, may have held up the others.
func (n *Node) beat(ctx context.Context, conn **pgx.Conn) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		if *conn, err = pgx.ConnectConfig(ctx, n.pool.Config().ConnConfig); err != nil {
			*conn = nil
			return false, err
		}
	}
	tag, err := (*conn).Exec(ctx, `UPDATE nacre_node SET until = clock_timestamp() + $4::interval,
			steady = CASE WHEN until < clock_timestamp() + $5::interval THEN clock_timestamp() ELSE steady END
		WHERE name = $1 AND epoch = $2 AND incarnation = $3`, n.Name, n.Epoch, n.Incarnation, Length, late)
	return tag.RowsAffected() == 1, err
}

// Pool is the database's, for rooms in which rows belong to the node. It ends with whoever
// joined.
func (n *Node) Pool() *pgxpool.Pool { return n.pool }

// Over is closed when others declared the node over.
func (n *Node) Over() <-chan struct{} { return n.over }

// Lease is this node's: what is written under it comes whole before its end, or is refused
// with [ErrOver].
func (n *Node) Lease() database.Lease {
	return database.Lease{
		Statement: `SELECT true FROM nacre_node WHERE name = $1 AND epoch = $2 AND incarnation = $3 FOR KEY SHARE`,
		Args:      []any{n.Name, n.Epoch, n.Incarnation}, Over: ErrOver, Holder: n.Incarnation,
	}
}

// Settle declares nodes over whose leases ended, each once. It does nothing before this node has itself reached the database in time for as
// long as a lease lasts. After the database was away or slow all leases have ended, and nobody is dead. A row that somebody holds is left
// for the next time.
func (n *Node) Settle(ctx context.Context) error {
	_, err := n.pool.Exec(ctx, `UPDATE nacre_node SET epoch = epoch + 1, until = '-infinity' WHERE name IN (
			SELECT name FROM nacre_node WHERE until <= clock_timestamp() AND until > '-infinity' AND name <> $1 FOR UPDATE SKIP LOCKED)
		AND EXISTS (SELECT 1 FROM nacre_node WHERE name = $1 AND epoch = $2 AND incarnation = $3
			AND until > clock_timestamp() AND steady <= clock_timestamp() - $4::interval)`, n.Name, n.Epoch, n.Incarnation, Length)
	return database.Classified(err)
}

// SettleLater is [Node.Settle] for whoever is no node, and can only tell that a lease ends while the database
// answers by waiting for as long as one lasts. Where none has ended it does not wait.
func SettleLater(ctx context.Context, pool *pgxpool.Pool) error {
	ended, err := pool.Query(ctx, `SELECT name, incarnation::text FROM nacre_node WHERE until <= clock_timestamp() AND until > '-infinity'`)
	if err != nil {
		return database.Classified(err)
	}
	var name, incarnation string
	var names, incarnations []string
	_, err = pgx.ForEachRow(ended, []any{&name, &incarnation}, func() error {
		names, incarnations = append(names, name), append(incarnations, incarnation)
		return nil
	})
	if err != nil || len(names) == 0 {
		return database.Classified(err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(Length + 2*beat):
	}
	_, err = pool.Exec(ctx, `UPDATE nacre_node SET epoch = epoch + 1, until = '-infinity' WHERE until <= clock_timestamp()
		AND until > '-infinity' AND (name, incarnation::text) IN (SELECT * FROM unnest($1::text[], $2::text[]))`, names, incarnations)
	return database.Classified(err)
}

// onePost is the advisory lock of whoever takes a post.
const onePost = 0x6e63706f73

// Hold takes a post, which one node at a time holds: in one epoch of its lease, until it gives
// it back, leaves or is over. It reports whether this node holds it now.
func (n *Node) Hold(ctx context.Context, post string) (held bool, err error) {
	err = database.Alone(ctx, n.pool, onePost, func(tx pgx.Tx) error {
		lease := n.Lease()
		if err := tx.QueryRow(ctx, lease.Statement, lease.Args...).Scan(&held); errors.Is(err, pgx.ErrNoRows) {
			return lease.Over
		} else if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO nacre_post AS p VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET node = $2, epoch = $3
			WHERE NOT EXISTS (SELECT FROM nacre_node n WHERE n.name = p.node AND n.epoch = p.epoch) OR p.node = $2 AND p.epoch = $3`, post, n.Name, n.Epoch)
		held = tag.RowsAffected() == 1
		return err
	})
	return held && err == nil, err
}

// Resign gives a post back, where this node holds it: another one may take it at once.
func (n *Node) Resign(ctx context.Context, post string) error {
	_, err := n.pool.Exec(ctx, `DELETE FROM nacre_post WHERE name = $1 AND node = $2 AND epoch = $3`, post, n.Name, n.Epoch)
	return database.Classified(err)
}

// Topic rings when a node left.
const Topic = "node"

// Leave gives the name back: another node may take over at once, and is woken.
func (n *Node) Leave(ctx context.Context) error {
	n.stop()
	n.done.Wait()
	if strings.HasPrefix(n.Name, unnamed) { // nobody waits for it
		_, err := n.pool.Exec(ctx, `DELETE FROM nacre_node WHERE name = $1`, n.Name)
		return database.Classified(err)
	}
	_, err := n.pool.Exec(ctx, `UPDATE nacre_node SET epoch = epoch + 1, until = '-infinity' WHERE name = $1 AND epoch = $2 AND incarnation = $3`,
		n.Name, n.Epoch, n.Incarnation)
	if err == nil {
		_, err = n.pool.Exec(ctx, database.Ring, Topic)
	}
	return database.Classified(err)
}
