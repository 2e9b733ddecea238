package schedule

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
)

const (
	// oneAtATime is the advisory lock of whoever writes schedules.
	oneAtATime = 0x6e63736368
	// asking bounds a question to the database that has no context of its own.
	asking = 10 * time.Second
)

// Topic rings when a process that is no node changed the schedules in a store.
const Topic = "schedule"

// inDatabase keeps schedules in the PostgreSQL that nodes share, and knows who of them
// serves. Each write of a node that serves comes whole before the end of its lease, or
// changes nothing.
type inDatabase struct {
	db *sql.DB
	// node is this process's, and nil for one that only looks or asks.
	node *node.Node
	self string
	end  func() error
}

// OpenShared opens the schedules in the database of an installation, for a process that is no
// node: it adds, shows and asks for ticks, and serves nothing.
func OpenShared(ctx context.Context, address, installation string, now func() time.Time) (*Store, error) {
	pool, err := database.Open(ctx, address, installation)
	if err != nil {
		return nil, err
	}
	store, err := share(ctx, pool, nil, now)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return store, nil
}

// OpenOn opens the schedules in the database of a node, which can serve them.
func OpenOn(ctx context.Context, n *node.Node, now func() time.Time) (*Store, error) {
	return share(ctx, n.Pool(), n, now)
}

func share(ctx context.Context, pool *pgxpool.Pool, n *node.Node, now func() time.Time) (*Store, error) {
	if err := errors.Join(node.Prepare(ctx, pool), database.Migrate(ctx, pool, "schedule", Migrations())); err != nil {
		return nil, err
	}
	p := &inDatabase{db: stdlib.OpenDBFromPool(pool), node: n}
	p.end = p.db.Close
	if n == nil {
		p.end = func() error { defer pool.Close(); return p.db.Close() }
	}
	return &Store{at: p, serving: p, now: now}, nil
}

func (p *inDatabase) reader() session { return database.Postgres(p.db) }

func (p *inDatabase) write(ctx context.Context, do func(session) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return database.Classified(err)
	}
	if err = p.mayWrite(ctx, tx); err == nil {
		err = do(database.Postgres(tx))
	}
	if err == nil && p.node == nil { // a person's change, which nodes are not to wait for
		_, err = tx.ExecContext(ctx, database.Ring, Topic)
	}
	if err != nil {
		_ = tx.Rollback() // the first error counts
		return database.Classified(err)
	}
	return database.Classified(tx.Commit())
}

// mayWrite waits until nobody else writes, and holds the lease of a node that does.
func (p *inDatabase) mayWrite(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, oneAtATime); err != nil || p.node == nil {
		return err
	}
	var held bool
	lease := p.node.Lease()
	err := tx.QueryRowContext(ctx, lease.Statement, lease.Args...).Scan(&held)
	if errors.Is(err, sql.ErrNoRows) {
		return lease.Over
	}
	return err
}

func (*inDatabase) classified(err error) error { return database.Classified(err) }

func (p *inDatabase) close() error { return p.end() }

func (p *inDatabase) join(ctx context.Context) (string, error) {
	if p.node == nil {
		return "", errors.New("schedules: only a node serves those in a [store]")
	}
	id := fmt.Sprintf("%s-%s", p.node.Name, strings.ToLower(rand.Text()))
	err := p.write(ctx, func(tx session) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM schedule_servers s WHERE NOT `+there)
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO schedule_servers (id, node, epoch, incarnation) VALUES (?, ?, ?, ?)`, id, p.node.Name, p.node.Epoch, p.node.Incarnation)
		}
		return err
	})
	if err == nil {
		p.self = id
	}
	return id, err
}

// there tells whether a server's node is: nobody declared its lease over, nor has it left.
const there = `EXISTS (SELECT FROM nacre_node n WHERE n.name = s.node AND n.epoch = s.epoch AND n.incarnation = s.incarnation)`

func (p *inDatabase) leave() error {
	if p.self == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	_, err := p.db.ExecContext(ctx, `DELETE FROM schedule_servers WHERE id = $1`, p.self)
	return database.Classified(err)
}

func (p *inDatabase) alive(id string) bool {
	is, err := p.anyOf(`s.id = $1 AND `+there, id)
	return is || err != nil
}

// any asks of leases that last, since it may be that no node is there to declare them over.
func (p *inDatabase) any() (bool, error) {
	return p.anyOf(there + ` AND EXISTS (SELECT FROM nacre_node n WHERE n.name = s.node AND n.until > clock_timestamp())`)
}

func (p *inDatabase) anyOf(where string, args ...any) (is bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	err = p.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM schedule_servers s WHERE `+where+`)`, args...).Scan(&is) //nolint:gosec // the conditions are this package's own
	return is, database.Classified(err)
}
