// Package machines keeps the audit chains of all machines of an installation in its database, too
//
//
// It promises that a record which was told to be durable is in the store, under its machine's name and with a head
// that the machine signed. A machine which the installation's key did not certify records nothing there, and one whose
// lease as a node is over records nothing any more. Whoever can write to the database, and has neither key, cannot
// change what was recorded without its being found. They cannot remove what was verified at the machine that looks,
// either. It does not defend rows that nobody has verified yet against being removed, the latest first: keep a receipt
// elsewhere for that.
package machines

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	// roomName is the room's in the store.
	roomName = "machines"
	// oneAtATime is the advisory lock of whoever takes the store's key, or asks to be admitted.
	oneAtATime = 0x6e636d61
	// asking bounds a question to the database.
	asking = 5 * time.Second
)

// Why a machine records nothing in the store.
var (
	// ErrNotAdmitted says that the installation's key has not certified this machine's.
	ErrNotAdmitted = errors.New("this machine is not admitted to the installation's store")
	// ErrOtherKey says that the store's key is not the one that this machine knows.
	ErrOtherKey = errors.New("the store's key is not the one that this machine was admitted by")
	// ErrUnknown says that no such machine has asked.
	ErrUnknown = errors.New("no machine of that name has asked to be admitted: nacre store machines lists those that have")
)

// Migrations are those of the tables. Lines are whole lines of a chain, from the record first to
// the record upto; a chain's head signs how far it reaches.
func Migrations() []string {
	return []string{`
CREATE TABLE nacre_authority (one boolean PRIMARY KEY DEFAULT true CHECK (one), key bytea NOT NULL, machine text NOT NULL)`, `
CREATE TABLE nacre_machine (name text PRIMARY KEY, key bytea NOT NULL UNIQUE, since bigint NOT NULL,
	asked timestamptz NOT NULL DEFAULT clock_timestamp(), certificate bytea)`, `
CREATE TABLE nacre_chain (machine text REFERENCES nacre_machine, chain text, upto bigint NOT NULL, head bytea NOT NULL, PRIMARY KEY (machine, chain))`, `
CREATE TABLE nacre_chain_line (machine text, chain text, first bigint, upto bigint NOT NULL, lines bytea NOT NULL, PRIMARY KEY (machine, chain, first),
	FOREIGN KEY (machine, chain) REFERENCES nacre_chain ON DELETE CASCADE)`, sessions, runs, `
ALTER TABLE nacre_machine ADD retired bytea`, leases}
}

// Machine is this one, with a store that it shares.
type Machine struct {
	store *database.Store
	paths registry.Paths
	keys  audit.Keys
}

// Of is the machine of an installation; nil where it has no store.
func Of(r *registry.Registry, keys audit.Keys) *Machine {
	if r.Store() == nil {
		return nil
	}
	return &Machine{store: r.Store(), paths: r.Paths(), keys: keys}
}

// Listed is a machine as the store has it.
type Listed struct {
	Name string `json:"name"`
	// Key is that of its chains, 64 hex digits.
	Key string `json:"key"`
	// Since is how many records its index had when it asked: chains of before are on its own disk alone.
	Since    uint64    `json:"since"`
	Asked    time.Time `json:"asked"`
	Admitted bool      `json:"admitted"`
	// Retired says that it is gone for good, and its chains with it.
	Retired bool `json:"retired,omitempty"`
	// Here says that it is this machine, Holder that it holds the installation's key.
	Here   bool `json:"here"`
	Holder bool `json:"holder"`

	certificate []byte
	retired     retired
}

// name is what this machine is called.
func (m *Machine) name() (string, error) { return registry.MachineName(m.paths, m.keys.Public()) }

// authority is the store's key, and whose it is.
type authority struct {
	key    ed25519.PublicKey
	holder string
}

// standing is this machine's, after it has asked to be admitted where it never did.
func (m *Machine) standing(ctx context.Context) (*pgxpool.Pool, authority, Listed, error) {
	pool, err := m.store.Room(ctx, roomName, Migrations)
	if err != nil {
		return nil, authority{}, Listed{}, err
	}
	name, err := m.name()
	if err != nil {
		return nil, authority{}, Listed{}, err
	}
	a, me, err := look(ctx, pool, name)
	if errors.Is(err, pgx.ErrNoRows) {
		err = database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error { return m.ask(ctx, tx, name) })
		if err == nil {
			a, me, err = look(ctx, pool, name)
		}
	}
	if err == nil {
		err = m.holds(a, &me)
	}
	if err != nil {
		err = fmt.Errorf("[store]: %w", database.Classified(err))
	}
	return pool, a, me, err
}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// look is one question, since it is asked before each chain.
func look(ctx context.Context, from queryer, name string) (a authority, me Listed, err error) {
	var key []byte
	me = Listed{Name: name, Here: true}
	err = from.QueryRow(ctx, `SELECT a.key, a.machine, m.key, m.since, m.asked, m.certificate FROM nacre_authority a, nacre_machine m WHERE m.name = $1`, name).
		Scan(&a.key, &a.holder, &key, &me.Since, &me.Asked, &me.certificate)
	me.Key = hex.EncodeToString(key)
	return a, me, err
}

// holds compares what the store says with what this machine knows, and whether it is admitted.
func (m *Machine) holds(a authority, me *Listed) error {
	ours, err := audit.ReadPublicKeys(filepath.Join(m.paths.Keys(), audit.PublicKeyFile))
	if err != nil {
		return err
	}
	known := false
	for _, key := range ours {
		known = known || hex.EncodeToString(key) == me.Key
	}
	if !known {
		return fmt.Errorf("the store has another key for machine %s than this one has: remove %s, and the machine asks under a new name", me.Name, m.paths.MachineFile())
	}
	trusted, err := m.trusted(a.key)
	if err != nil {
		return err
	}
	me.Admitted = me.certified(trusted, m.store.Installation())
	return nil
}

// Elsewhere is where each record of this machine's chains is kept, too; nil where there is no
// store. It is [ErrNotAdmitted] before this machine was admitted.
func (m *Machine) Elsewhere(ctx context.Context) (audit.Elsewhere, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // one place is enough then
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	pool, a, me, err := m.standing(ctx)
	if err != nil {
		return nil, err
	}
	if !me.Admitted {
		return nil, fmt.Errorf("%w: run on machine %s: nacre store admit %s", ErrNotAdmitted, a.holder, me.Name)
	}
	return (&keeper{m.store, pool, me.Name}).keep, nil
}

// Standing is this machine's, which asks for nothing: whether it has asked to be admitted, and is.
func (m *Machine) Standing(ctx context.Context) (me Listed, holder string, asked bool, err error) {
	pool, err := m.store.Room(ctx, roomName, Migrations)
	if err != nil {
		return Listed{}, "", false, err
	}
	name, err := m.name()
	if err != nil {
		return Listed{}, "", false, err
	}
	a, me, err := look(ctx, pool, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return me, "", false, nil
	}
	if err == nil {
		err = m.holds(a, &me)
	}
	return me, a.holder, true, told(err)
}

// List are all machines that have asked, by name. This one has asked then.
func (m *Machine) List(ctx context.Context) ([]Listed, error) {
	pool, a, _, err := m.standing(ctx)
	if err != nil {
		return nil, err
	}
	trusted, err := m.trusted(a.key)
	if err != nil {
		return nil, err
	}
	list, err := listed(ctx, pool, a, trusted, m.store.Installation())
	here, nameErr := m.name()
	for i := range list {
		list[i].Here = list[i].Name == here
	}
	return list, errors.Join(database.Classified(err), nameErr)
}

type queries interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func listed(ctx context.Context, from queries, a authority, trusted ed25519.PublicKey, installation string) (list []Listed, err error) {
	rows, err := from.Query(ctx, `SELECT name, key, since, asked, certificate, retired FROM nacre_machine ORDER BY name`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (one Listed, err error) {
		var key, gone []byte
		err = row.Scan(&one.Name, &key, &one.Since, &one.Asked, &one.certificate, &gone)
		one.Key, one.Holder = hex.EncodeToString(key), one.Name == a.holder
		one.Admitted = one.certified(trusted, installation)
		one.retired, one.Retired = parseRetired(gone, one, trusted, installation)
		return one, err
	})
}
