package database

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is the database of an installation, to which a process connects when a room first
// asks for it. All rooms of a process share its connections. Safe for concurrent use.
type Store struct {
	address      func() string
	installation string

	mu    sync.Mutex
	pool  *pgxpool.Pool
	ready map[string]bool
	// found are the versions of the rooms' tables when it was connected to.
	found map[string]Version
	lease Lease
	// failed is why it could not be connected to, until then: who waits for it does not wait
	// for each one before it.
	failed error
	until  time.Time

	bell bell
	// witness is nil where nothing is signed.
	witness Witness
}

// Held is the lease's statement for a WITH of another one that has so many arguments, and the lease's own to
// put after them. Without a lease it gives a row at any time.
func (s *Store) Held(before int) (statement string, args []any) {
	lease := s.leased()
	if lease.Statement == "" {
		return "SELECT true", nil
	}
	var numbers []string
	for n := range lease.Args {
		numbers = append(numbers, "$"+strconv.Itoa(n+1), "$"+strconv.Itoa(before+n+1))
	}
	return strings.NewReplacer(numbers...).Replace(lease.Statement), lease.Args
}

// Lease is what gives a process the right to write. The zero lease is none: whoever
// has it writes at any time.
type Lease struct {
	// Statement gives one row while the lease lasts, and holds it until the end of the
	// transaction. Args are its arguments, fewer than ten.
	Statement string
	Args      []any
	// Over says why nothing is written after its end.
	Over error
	// Holder tells whoever has it from all others; rows that belong to it name it.
	Holder string
}

// Under makes all that this process writes with [Store.Write] carry a lease.
func (s *Store) Under(lease Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = lease
}

// Write does something in one transaction, which comes whole before the end of this process's
// lease, if it has one, or changes nothing. With a key that is not 0, one process of the
// installation at a time does it.
func (s *Store) Write(ctx context.Context, pool *pgxpool.Pool, key int64, do func(pgx.Tx) error) error {
	lease := s.leased()
	err := Classified(alone(ctx, pool, key, func(tx pgx.Tx) error {
		if lease.Statement == "" {
			return do(tx)
		}
		var held bool
		err := tx.QueryRow(ctx, lease.Statement, lease.Args...).Scan(&held)
		if errors.Is(err, pgx.ErrNoRows) {
			return lease.Over
		}
		if err != nil {
			return err
		}
		return do(tx)
	}))
	if err != nil && errors.Is(err, lease.Over) && s.leased().Statement == "" {
		return s.Write(ctx, pool, key, do) // it was given back meanwhile
	}
	return err
}

// Holder is that of this process's lease; empty where it has none.
func (s *Store) Holder() string { return s.leased().Holder }

// Free ends that this process writes under the lease of a holder, where it still does.
func (s *Store) Free(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.Holder == holder {
		s.lease = Lease{}
	}
}

func (s *Store) leased() Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// NewStore is the store of an installation. address is asked when it is connected to, and
// again after a failure. Nothing is dialled yet.
func NewStore(address func() string, installation string) *Store {
	return &Store{address: address, installation: installation, ready: map[string]bool{}}
}

// Room are the connections, after the tables of a room were brought forward once in this
// process. Every error says that it is about [store].
func (s *Store) Room(ctx context.Context, room string, migrations func() []string) (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("[store]: %w", err)
	}
	if s.ready[room] {
		return s.pool, nil
	}
	known := migrations()
	if v, there := s.found[room]; !there || v.Tables < len(known) || !v.Accepts(len(known)) { // or it is refused
		if err := Migrate(ctx, s.pool, room, known); err != nil {
			return nil, fmt.Errorf("[store]: %w", err)
		}
	}
	s.ready[room] = true
	return s.pool, nil
}

// Connected are the connections, whatever tables there are.
func (s *Store) Connected(ctx context.Context) (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("[store]: %w", err)
	}
	return s.pool, nil
}

// Look is [Look] at the store.
func (s *Store) Look(ctx context.Context) (State, error) {
	found, err := Look(ctx, s.address(), s.installation)
	if err != nil {
		return found, fmt.Errorf("[store]: %w", err)
	}
	return found, nil
}

// Installation is whose the store is.
func (s *Store) Installation() string { return s.installation }

// connect is called with mu held.
func (s *Store) connect(ctx context.Context) (err error) {
	switch {
	case s.pool != nil:
		return nil
	case s.failed != nil && time.Now().Before(s.until):
		return s.failed
	}
	s.pool, s.found, err = open(ctx, s.address(), s.installation)
	if s.failed = err; err != nil {
		s.pool, s.until = nil, time.Now().Add(redial)
		if ctx.Err() != nil {
			s.failed = nil // it is the asker's fault
		}
	}
	return err
}

// Alone does something in one transaction, one process of the installation at a time for a
// key, whether or not this process has a lease that lasts.
func Alone(ctx context.Context, pool *pgxpool.Pool, key int64, do func(pgx.Tx) error) error {
	return Classified(alone(ctx, pool, key, do))
}

// Close ends the connections. Whoever asks next connects again.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool != nil {
		s.pool.Close()
	}
	s.pool, s.ready = nil, map[string]bool{}
}

// alone does something in one transaction, one process of the installation at a time for a
// key that is not 0.
func alone(ctx context.Context, pool *pgxpool.Pool, key int64, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if key != 0 {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", key); err != nil {
				return err
			}
		}
		return do(tx)
	})
}
