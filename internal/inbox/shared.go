package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
)

const (
	// writing bounds one write to the database.
	writing = 10 * time.Second
	// batch is how many messages one statement takes over, and batches how many a look.
	batch, batches = 100, 100
	// tidying is after how many looks the known are pruned, and sharedKnown how many of them
	// are kept at most.
	tidying, sharedKnown = 120, 100_000
	// sharedLook is how often a node looks for messages of nodes that are over: with
	// [node.Length] it makes the three seconds after which a failure is seen.
	sharedLook = 500 * time.Millisecond
)

// Topic rings where messages of a node that left are to be taken over.
const Topic = node.Topic

// held begins a statement that holds the lease's row while it writes: either it comes
// before the end of the lease as a whole, or it changes nothing.
const held = `WITH held AS (SELECT FROM nacre_node WHERE name = $1 AND epoch = $2 AND incarnation = $3 FOR KEY SHARE)`

// Migrations are those of the tables of messages.
func Migrations() []string {
	return append([]string{node.Table, `CREATE TABLE nacre_message (
		id text PRIMARY KEY, node text NOT NULL, epoch bigint NOT NULL, begun integer NOT NULL, taken timestamptz NOT NULL, message bytea NOT NULL)`,
		`CREATE TABLE nacre_known (id text PRIMARY KEY, session text NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
		`CREATE INDEX nacre_known_at ON nacre_known (at)`,
		`ALTER TABLE nacre_message ADD aside boolean NOT NULL DEFAULT false`,
		`CREATE INDEX nacre_message_node ON nacre_message (node, epoch)`}, turnTables()...)
}

// shared keeps messages in the database of several nodes. A message belongs to a node in one epoch
// of its lease, and each write holds the lease's row while it writes. So a write comes whole before
// the node is declared over, or changes nothing, even where no other node has taken the message
// over yet.
type shared struct {
	store *database.Store
	pool  *pgxpool.Pool
	node  *node.Node
	// looked counts the looks.
	looked atomic.Int64
}

// Join makes the box of one node of several, in the store of an installation, which stays
// the caller's. limit is how many messages of one group this node keeps at once. All that the
// process writes to the store from then on is under the node's lease.
func Join(ctx context.Context, store *database.Store, name string, limit int) (*Box, error) {
	if limit < 1 {
		return nil, errors.New("inbox: a limit of at least 1 is required")
	}
	pool, err := store.Room(ctx, "inbox", Migrations)
	if err != nil {
		return nil, err
	}
	n, err := node.Join(ctx, pool, name)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	store.Under(n.Lease())
	return newBox(&shared{store: store, pool: pool, node: n}, limit), nil
}

func (s *shared) over() <-chan struct{} { return s.node.Over() }

func (*shared) every() time.Duration { return sharedLook }

// close leaves, so that other nodes take over at once what waits. What is left to write then, the
// end of its chain, is of no node any more. A node that was declared over writes nothing.
func (s *shared) close(bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	select {
	case <-s.node.Over():
	default:
		s.store.Under(database.Lease{})
	}
	return s.node.Leave(ctx)
}

// write inserts a message, or counts that it begins. Either may be done again: an
// answer that got lost leaves nobody in doubt.
func (s *shared) write(m Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if m.Begun == 0 {
		return s.insert(m, data)
	}
	changed, err := s.exec(held+`UPDATE nacre_message SET begun = $5, message = $6 WHERE id = $4 AND node = $1 AND epoch = $2 AND EXISTS (SELECT FROM held)`,
		m.ID, m.Begun, data)
	if err == nil && changed == 0 {
		return fmt.Errorf("%w: %w", ErrUnknown, node.ErrOver)
	}
	return err
}

// insert writes a message down, and in the same statement the id of one that may come
// once. Where nobody knows whether it is there, it is taken away again: its channel is
// told that it was not taken. One that may come once stays, if it is there: whichever
// node it is brought to again knows it then, and the next look finds it.
func (s *shared) insert(m Message, data []byte) error {
	changed, err := s.exec(held+`,
		fresh AS (INSERT INTO nacre_known (id, session) SELECT $4::text, $8::text FROM held WHERE $9::boolean ON CONFLICT DO NOTHING RETURNING id)
		INSERT INTO nacre_message (id, node, epoch, begun, taken, message, group_name, conversation)
			SELECT $4::text, $1, $2, $5::integer, $6::timestamptz, $7::bytea, $10::text, $11::text
		FROM held WHERE NOT $9::boolean OR EXISTS (SELECT FROM fresh)`,
		m.ID, m.Begun, m.Taken, data, string(m.Session), m.Once, string(m.Group), inStore(m.Group, m.Conversation))
	if err == nil && changed == 0 {
		return s.refused(m)
	}
	if err != nil && !m.Once {
		return errors.Join(err, s.remove(m, false))
	}
	return err
}

// refused is why nothing was written: the message was taken before, or this node is over.
func (s *shared) refused(m Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	var known bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM nacre_known WHERE id = $1)`, m.ID).Scan(&known)
	switch {
	case err != nil:
		return database.Classified(err)
	case known:
		return ErrRepeated
	}
	return node.ErrOver
}

// exec does one statement, whose first three arguments are the lease.
func (s *shared) exec(statement string, arguments ...any) (changed int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	tag, err := s.pool.Exec(ctx, statement, s.lease(arguments)...)
	return tag.RowsAffected(), database.Classified(err)
}

// SharedSessions are those of all messages that the nodes of a store keep, whichever of them
// has them. One that is put aside is nobody's.
func SharedSessions(ctx context.Context, store *database.Store) (map[nacre.SessionID]bool, error) {
	pool, err := store.Room(ctx, "inbox", Migrations)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, `SELECT id, message FROM nacre_message WHERE NOT aside`)
	if err != nil {
		return nil, database.Classified(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, database.Classified(err)
	}
	sessions := map[nacre.SessionID]bool{}
	for _, r := range found {
		var m Message
		if json.Unmarshal(r.Message, &m) == nil { // else whoever takes it puts it aside
			sessions[m.Session] = true
		}
	}
	return sessions, nil
}

func (s *shared) lease(arguments []any) []any {
	return slices.Concat([]any{s.node.Name, s.node.Epoch, s.node.Incarnation}, arguments)
}

// remove forgets a message, unless it is another node's by now. With it goes its id where
// it may come again: that which this very attempt wrote, and no earlier one.
func (s *shared) remove(m Message, leave bool) error {
	changed, err := s.exec(held+`, again AS (DELETE FROM nacre_known WHERE id = $4 AND session = $5 AND $6::boolean AND EXISTS (SELECT FROM held))
		DELETE FROM nacre_message WHERE id = $4 AND node = $1 AND epoch = $2 AND EXISTS (SELECT FROM held)`, m.ID, string(m.Session), !leave)
	if err == nil && changed == 0 {
		return s.stands()
	}
	return err
}

// stands refuses a node that is over. What another one has by then looks to it as what it
// removed itself.
func (s *shared) stands() error {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	var held bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM nacre_node WHERE name = $1 AND epoch = $2 AND incarnation = $3)`, s.lease(nil)...).Scan(&held)
	if err == nil && !held {
		return fmt.Errorf("%w: %w", ErrUnknown, node.ErrOver)
	}
	return database.Classified(err)
}

// take makes messages this node's whose node was declared over, or has left: all of them,
// however many, and before them those that are damaged are put aside.
func (s *shared) take(func(holder string) bool) (taken []Message, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	if err := s.node.Settle(ctx); err != nil {
		return nil, err
	}
	if err := s.tidy(); err != nil {
		return nil, err
	}
	var errs []error
	for range batches {
		rows, err := s.rows(held+`UPDATE nacre_message SET node = $1, epoch = $2 WHERE id IN (
				SELECT m.id FROM nacre_message m WHERE NOT m.aside AND NOT EXISTS (SELECT FROM nacre_node n WHERE n.name = m.node AND n.epoch = m.epoch)
				ORDER BY m.taken, m.id LIMIT $4 FOR UPDATE OF m SKIP LOCKED)
			AND EXISTS (SELECT FROM held) RETURNING id, message`, batch)
		if err != nil {
			return taken, errors.Join(append(errs, err)...)
		}
		for _, r := range rows {
			m, err := s.read(r)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			taken = append(taken, m)
		}
		if len(rows) < batch {
			break
		}
	}
	return taken, errors.Join(errs...)
}

// tidy forgets what was dealt with long ago, or before too many others, now and then. What
// waits is known as long as it does.
func (s *shared) tidy() error {
	if s.looked.Add(1)%tidying != 1 {
		return nil
	}
	_, err := s.exec(held+`DELETE FROM nacre_known k WHERE EXISTS (SELECT FROM held)
		AND (at < now() - interval '7 days' OR at < (SELECT at FROM nacre_known ORDER BY at DESC OFFSET $4 LIMIT 1))
		AND NOT EXISTS (SELECT FROM nacre_message m WHERE m.id = k.id)`, sharedKnown-1)
	return err
}

// row is a message as it is stored.
type row struct {
	ID      string
	Message []byte
}

func (s *shared) rows(statement string, arguments ...any) ([]row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writing)
	defer cancel()
	rows, err := s.pool.Query(ctx, statement, s.lease(arguments)...)
	if err != nil {
		return nil, database.Classified(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	return found, database.Classified(err)
}

// read is the message in a row of this node's. One that is damaged is put aside: it stays for
// a person to look at, and no node takes it any more.
func (s *shared) read(r row) (m Message, err error) {
	if err = json.Unmarshal(r.Message, &m); err == nil {
		err = m.check()
	}
	if err == nil && m.ID != r.ID {
		err = errors.New("it is another message than its id says")
	}
	if err == nil {
		return m, nil
	}
	_, failed := s.exec(held+`UPDATE nacre_message SET aside = true WHERE id = $4 AND node = $1 AND epoch = $2 AND EXISTS (SELECT FROM held)`, r.ID)
	return m, errors.Join(fmt.Errorf("a message is lost: the row %.80q of nacre_message cannot be read and is put aside: %w", r.ID, err), failed)
}

// strays are messages of this node's that it does not hold: the answer to their writing
// was lost.
func (s *shared) strays(known []string) (ids []string, err error) {
	rows, err := s.rows(held+`SELECT id, message FROM nacre_message WHERE node = $1 AND epoch = $2 AND NOT aside AND id <> ALL($4) AND EXISTS (SELECT FROM held) LIMIT $5`,
		known, batch)
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// adopt gives a stray that may come once: whoever was to bring it again may have been told
// that it was taken. Any other is removed, since its channel was told that it was not.
func (s *shared) adopt(id string) (Message, bool, error) {
	rows, err := s.rows(held+`SELECT id, message FROM nacre_message WHERE id = $4 AND node = $1 AND epoch = $2 AND NOT aside AND EXISTS (SELECT FROM held)`, id)
	if err != nil || len(rows) == 0 {
		return Message{}, false, err
	}
	m, err := s.read(rows[0])
	if err != nil || m.Once {
		return m, err == nil, err
	}
	return m, false, s.remove(m, false)
}
