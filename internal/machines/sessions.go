package machines

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	// reclaim is after how long another process says of a session that it is lost, where the one
	// that began to say so has not.
	reclaim = "30 seconds"
	// atOnce is how many sessions are listed, the latest, and lost in one look.
	atOnce = 1000
)

// sessions is the table of sessions. A session that works belongs to the holder of a node's lease, and
// is over with it. What it was asked for stays on its own machine.
const sessions = `
CREATE TABLE nacre_session (
    machine text REFERENCES nacre_machine,
    session text,
    kind    text NOT NULL,
    owner   text NOT NULL,
    started timestamptz NOT NULL,
    ended   timestamptz,
    holder  uuid NOT NULL,
    state   text NOT NULL,
    outcome text NOT NULL DEFAULT '',
    claimed timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (machine, session)
);
CREATE INDEX nacre_session_working ON nacre_session (holder) WHERE state = 'running'`

// Session is one of any machine, as the store has it.
type Session struct {
	Machine string             `json:"machine"`
	ID      nacre.SessionID    `json:"id"`
	Kind    string             `json:"kind"`
	Group   nacre.Group        `json:"group"`
	State   nacre.SessionState `json:"state"`
	Started time.Time          `json:"started"`
	Ended   time.Time          `json:"ended,omitzero"`
	Outcome string             `json:"outcome,omitempty"`
}

// Name is what it is called at other machines.
func (s Session) Name() string { return s.Machine + "/" + string(s.ID) }

// Sessions are those of all machines, as the store has them. Its nil is that of an installation
// without one, in which there is nothing to say and nothing to see.
type Sessions struct {
	store *database.Store
	name  func() (string, error)

	// node is the lease under which the sessions of this process are, and count how many those are.
	mu    sync.Mutex
	node  *node.Node
	count int
}

// SessionsOf are those of an installation.
func SessionsOf(r *registry.Registry, keys audit.Keys) *Sessions {
	if r.Store() == nil {
		return nil
	}
	return &Sessions{store: r.Store(), name: func() (string, error) { return registry.MachineName(r.Paths(), keys.Public()) }}
}

// Attend writes into the store that a session works here, for as long as this process is alive. over is closed when other
// machines take it for lost, and is nil where that ends the process. end says what it came to. It is for a machine that is
// admitted.
func (s *Sessions) Attend(ctx context.Context, status nacre.SessionStatus) (over <-chan struct{}, end func(context.Context, nacre.SessionStatus) error, err error) {
	if s == nil {
		return nil, func(context.Context, nacre.SessionStatus) error { return nil }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	pool, name, err := s.room(ctx)
	if err != nil {
		return nil, nil, err
	}
	holder, over, err := s.join(ctx, pool)
	if err != nil {
		return nil, nil, err
	}
	done, err := pool.Exec(ctx, `INSERT INTO nacre_session AS s (machine, session, kind, owner, started, holder, state) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (machine, session) DO UPDATE SET kind = excluded.kind, owner = excluded.owner, ended = NULL, holder = excluded.holder, state = excluded.state, outcome = '', claimed = excluded.claimed
		WHERE NOT EXISTS (SELECT FROM nacre_run r WHERE r.machine = s.machine AND r.session = s.session AND r.taken <> '')`,
		name, string(status.ID), status.Kind, string(status.Group), status.Started, holder, string(nacre.SessionRunning))
	if err == nil && done.RowsAffected() == 0 {
		err = carriedOn(ctx, pool, name, status.ID)
	}
	if err != nil {
		return nil, nil, errors.Join(told(err), s.leave(ctx, holder))
	}
	return over, func(ctx context.Context, status nacre.SessionStatus) error {
		ctx, cancel := context.WithTimeout(ctx, 2*asking)
		defer cancel()
		return errors.Join(s.ended(ctx, pool, name, status), s.leave(ctx, holder))
	}, nil
}

// room are the connections to this room's tables, and this machine's name.
func (s *Sessions) room(ctx context.Context) (*pgxpool.Pool, string, error) {
	if _, err := s.store.Room(ctx, "node", node.Migrations); err != nil {
		return nil, "", err
	}
	pool, err := s.store.Room(ctx, roomName, Migrations)
	if err != nil {
		return nil, "", err
	}
	name, err := s.name()
	return pool, name, err
}

// told is an error of the database's as a person is told of it.
func told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("[store]: %w", database.Classified(err))
}

// join gives the lease that this process's sessions are under: that of its node, or one that its first
// session begins and its last one ends.
func (s *Sessions) join(ctx context.Context, pool *pgxpool.Pool) (holder string, over <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		if holder := s.store.Holder(); holder != "" {
			return holder, nil, nil
		}
		if s.node, err = node.Attend(ctx, pool); err != nil {
			return "", nil, told(err)
		}
		s.store.Under(s.node.Lease())
	}
	s.count++
	return s.node.Incarnation, s.node.Over(), nil
}

// leave gives the lease back with the last session under it.
func (s *Sessions) leave(ctx context.Context, holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil || s.node.Incarnation != holder {
		return nil // the node's own
	}
	if s.count--; s.count > 0 {
		return nil
	}
	s.store.Free(holder)
	left := s.node
	s.node = nil
	return told(left.Leave(ctx))
}

// Ended says of a session of this machine, whose process is gone, what it came to.
func (s *Sessions) Ended(ctx context.Context, status nacre.SessionStatus) error {
	if s == nil {
		return nil
	}
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	return s.ended(ctx, pool, name, status)
}

// ended leaves a session that others took for lost before. One of which the store does not hear its end is lost for others.
func (*Sessions) ended(ctx context.Context, pool *pgxpool.Pool, name string, status nacre.SessionStatus) error {
	return patiently(ctx, asking, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, `UPDATE nacre_session SET state = $3, outcome = $4, ended = clock_timestamp() WHERE machine = $1 AND session = $2 AND state = 'running'`,
			name, string(status.ID), string(status.State), status.Outcome)
		return told(err)
	})
}

// Remove takes a session of this machine, which has ended, out of the store's list. Its chains stay.
func (s *Sessions) Remove(ctx context.Context, id nacre.SessionID) error {
	return s.remove(ctx, `machine = $1 AND session = $2`, string(id))
}

// RemoveOlder takes those of all machines out of the list that ended longer ago, by the database's
// clock: a machine that is lost removes none.
func (s *Sessions) RemoveOlder(ctx context.Context, age time.Duration) error {
	return s.remove(ctx, `$1 <> '' AND ended < clock_timestamp() - $2 * interval '1 second'`, age.Seconds())
}

func (s *Sessions) remove(ctx context.Context, which string, arg any) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	// Of a run of one that nobody took, what others would need goes, too. That somebody did take one stays known, so that
	// its own machine does not go on with it.
	_, err = pool.Exec(ctx, `WITH gone AS (DELETE FROM nacre_session s WHERE s.state <> 'running' AND `+which+` RETURNING s.machine, s.session)
		DELETE FROM nacre_run r USING gone g WHERE r.machine = g.machine AND r.session = g.session AND r.taken = ''`, name, arg)
	return told(err)
}

// List gives those of all other machines, the newest first; those alone that work where working
// is true. One whose process is gone is [nacre.SessionNodeLost], whether or not anybody has said so yet.
func (s *Sessions) List(ctx context.Context, working bool) ([]Session, error) {
	if s == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	pool, name, err := s.room(ctx)
	if err != nil {
		return nil, err
	}
	return find(ctx, pool, `machine <> $1 AND (NOT $2 OR state = 'running' AND NOT `+lost+`)`, name, working)
}

// Show gives one of a machine. machine is as for [Machine.Read].
func (s *Sessions) Show(ctx context.Context, machine string, id nacre.SessionID) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	pool, _, err := s.room(ctx)
	if err != nil {
		return Session{}, err
	}
	list, err := find(ctx, pool, `session = $2 AND `+called, machine, string(id))
	switch {
	case err != nil:
		return Session{}, err
	case len(list) != 1:
		return Session{}, fmt.Errorf("%w: %.80s/%s", ErrNoSession, machine, id)
	}
	return list[0], nil
}

// ErrNoSession says that the store has no such session.
var ErrNoSession = errors.New("the store has no such session of such a machine: nacre sessions list shows those there are")

// called finds a machine by its name, or by the beginning of the id at its end, of which the ledger tells
// twelve letters.
const called = `(machine = $1 OR length($1) >= 12 AND position('-' IN $1) = 0 AND starts_with(right(machine, 16), $1))`

// find gives sessions, the newest first.
func find(ctx context.Context, pool *pgxpool.Pool, where string, args ...any) ([]Session, error) {
	rows, err := pool.Query(ctx, `SELECT machine, session, kind, owner, CASE WHEN `+lost+` THEN '`+string(nacre.SessionNodeLost)+`' ELSE state END, started, ended, outcome
		FROM nacre_session s WHERE `+where+` ORDER BY started DESC LIMIT `+strconv.Itoa(atOnce), args...)
	if err != nil {
		return nil, told(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one Session, err error) {
		var ended *time.Time
		err = row.Scan(&one.Machine, &one.ID, &one.Kind, &one.Group, &one.State, &one.Started, &ended, &one.Outcome)
		if ended != nil {
			one.Ended = *ended
		}
		return one, err
	})
	return list, told(err)
}

// lost is what a session is that works, and whose holder was declared over.
const lost = `(s.state = 'running' AND NOT EXISTS (SELECT FROM nacre_node n WHERE n.incarnation = s.holder AND n.until > '-infinity'))`

// Lose gives the sessions of other machines whose process was declared over, each to one machine at a time until that has
// said so. What it says may be said again where it was killed in the middle.
func (s *Sessions) Lose(ctx context.Context, say func(Session) error) error {
	if s == nil {
		return nil
	}
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	rows, err := pool.Query(ctx, `UPDATE nacre_session SET claimed = clock_timestamp() WHERE (machine, session) IN (SELECT machine, session FROM nacre_session s
			WHERE machine <> $1 AND `+lost+` AND claimed < clock_timestamp() - interval '`+reclaim+`' LIMIT $2 FOR UPDATE SKIP LOCKED)
		RETURNING machine, session, kind, owner, started`, name, atOnce)
	if err != nil {
		return told(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one Session, err error) {
		err = row.Scan(&one.Machine, &one.ID, &one.Kind, &one.Group, &one.Started)
		return one, err
	})
	if err != nil || len(list) == 0 {
		return told(err)
	}
	var errs []error
	for _, one := range list {
		if err := say(one); err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", one.Name(), err))
			continue
		}
		_, err := pool.Exec(ctx, `UPDATE nacre_session s SET state = $3, outcome = $3, ended = clock_timestamp() WHERE machine = $1 AND session = $2 AND `+lost,
			one.Machine, string(one.ID), string(nacre.SessionNodeLost))
		errs = append(errs, told(err))
	}
	_, err = pool.Exec(ctx, `DELETE FROM nacre_node n WHERE starts_with(n.name, '.') AND n.until = '-infinity' AND NOT EXISTS (SELECT FROM nacre_session s WHERE s.holder = n.incarnation AND s.state = 'running')`)
	return errors.Join(append(errs, told(err))...)
}

// Notice declares over whose lease has ended, for a process that is no node. It may wait for as long as a lease lasts.
func (s *Sessions) Notice(ctx context.Context) error {
	if s == nil {
		return nil
	}
	pool, _, err := s.room(ctx)
	if err != nil {
		return err
	}
	return told(node.SettleLater(ctx, pool))
}
