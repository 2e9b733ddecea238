// Package database opens the PostgreSQL that the nodes of one installation share
// . Without one, each room keeps its files and SQLite databases as before.
//
// It promises that a database of a newer nacre or of another installation is refused. So is one that
// cannot be written, and one that would be reached over a network without a verified certificate. The
// error says what to do and never repeats the address. Migrations go forward only, each in one
// transaction, one process at a time. It knows nothing of what is in the tables: rooms hand it their
// migrations.
package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
)

const (
	// connections are those of a process at most, beside the one of its heartbeat and the one of
	// its bell.
	connections = 6
	// dialTimeout is for one connection, and statementTimeout for one statement: the
	// server ends a slower one.
	dialTimeout      = 5 * time.Second
	statementTimeout = "10000" // milliseconds
	// idleTimeout is how long a transaction may stand still between two statements: the server
	// ends it then, and lets go of its locks. A node that is stopped, or cut off without its
	// connection breaking, would keep them for as long as the connection lasts, and nobody
	// could declare it over. It is less than a lease.
	idleTimeout = "2000" // milliseconds
	// lockKey is the advisory lock under which tables are migrated.
	lockKey = 0x6e61637265
)

// Why a database is unusable; everything else is the driver's own error.
var (
	ErrAddress  = errors.New("the variable of [store] url_env holds no address of a PostgreSQL: write postgres://USER@HOST/NAME")
	ErrPlain    = errors.New("the address of [store] url_env names another machine without sslmode=verify-full: whoever is between could read and write")
	ErrNewer    = errors.New("a newer nacre wrote the database: upgrade this node to use it")
	ErrReadOnly = errors.New("the database is read-only: name its primary server")
	ErrFull     = errors.New("the disk of the database is full: make room")
	ErrAway     = errors.New("the database does not answer: check that it runs and that this machine reaches it")
	ErrIdle     = errors.New("the database ended a write because this process stood still in the middle of it: nothing of it is kept; try again")
	ErrHeld     = errors.New("somebody else works on the tables: try again")
	ErrSlow     = errors.New("the database did not answer in time: check its load, and that of this machine")
	ErrUnnamed  = errors.New("[store] installation is missing or malformed: give it 1–64 lower-case letters, digits, _ or -, the same for all nodes of this installation and for no other installation")
	ErrForeign  = errors.New("the database belongs to another installation: give this installation a database of its own, or correct [store] installation")
	ErrRefused  = errors.New("the database refused this user: check the user, the password and the rights")
)

// Open connects to the database of an installation, which is the first that opens it.
func Open(ctx context.Context, address, installation string) (*pgxpool.Pool, error) {
	pool, _, err := open(ctx, address, installation)
	return pool, err
}

// open tells the versions of the rooms' tables, too, as far as it found any.
func open(ctx context.Context, address, installation string) (*pgxpool.Pool, map[string]Version, error) {
	if _, err := nacre.ParsePluginName(installation); err != nil { // the same letters
		return nil, nil, ErrUnnamed
	}
	options, err := parse(address)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, nil, Classified(err)
	}
	versions, err := meet(ctx, pool, installation)
	if err != nil {
		pool.Close()
		return nil, nil, Classified(err)
	}
	return pool, versions, nil
}

// meet asks in one statement whose a database is and what is in it. One that nobody has used yet becomes
// the installation's.
func meet(ctx context.Context, pool *pgxpool.Pool, installation string) (map[string]Version, error) {
	var owner string
	var rooms []string
	var tables, oldest []int
	err := pool.QueryRow(ctx, `SELECT (SELECT name FROM nacre_installation), coalesce(array_agg(room), '{}'), coalesce(array_agg(version), '{}'),
		coalesce(array_agg(coalesce(oldest, version)), '{}') FROM nacre_version`).Scan(&owner, &rooms, &tables, &oldest)
	if err != nil || owner != installation {
		return nil, own(ctx, pool, installation) // which tells why, or makes what is missing
	}
	versions := make(map[string]Version, len(rooms))
	for i, room := range rooms {
		versions[room] = Version{tables[i], oldest[i]}
	}
	return versions, nil
}

// own writes the installation down in a database that has none yet, and refuses another's.
func own(ctx context.Context, pool *pgxpool.Pool, installation string) error {
	return alone(ctx, pool, lockKey, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS nacre_installation (one boolean PRIMARY KEY DEFAULT true CHECK (one), name text NOT NULL)"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO nacre_installation (name) VALUES ($1) ON CONFLICT DO NOTHING", installation); err != nil {
			return err
		}
		var owner string
		if err := tx.QueryRow(ctx, "SELECT name FROM nacre_installation").Scan(&owner); err != nil {
			return err
		}
		if owner != installation {
			return fmt.Errorf("%w (it is %.64q's, and this one is %q)", ErrForeign, owner, installation)
		}
		return nil
	})
}

// parse reads an address. The driver's error may repeat the address with its password.
func parse(address string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, ErrAddress
	}
	options, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, ErrAddress
	}
	if err := sealed(options.ConnConfig); err != nil {
		return nil, err
	}
	options.MaxConns = connections
	options.ConnConfig.ConnectTimeout = dialTimeout
	options.ConnConfig.RuntimeParams["application_name"] = "nacre"
	options.ConnConfig.RuntimeParams["statement_timeout"] = statementTimeout
	options.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = idleTimeout
	return options, nil
}

// sealed refuses to speak in the clear, or to whoever answers, beyond this machine.
func sealed(c *pgx.ConnConfig) error {
	if !verified(c.Host, c.TLSConfig != nil && !c.TLSConfig.InsecureSkipVerify) {
		return ErrPlain
	}
	for _, f := range c.Fallbacks {
		if !verified(f.Host, f.TLSConfig != nil && !f.TLSConfig.InsecureSkipVerify) {
			return ErrPlain
		}
	}
	return nil
}

func verified(host string, certificate bool) bool {
	ip := net.ParseIP(host)
	return certificate || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}

// Migrate brings the tables of a room forward: migrations[i] brings them from version i
// to i+1.
func Migrate(ctx context.Context, pool *pgxpool.Pool, room string, migrations []string) error {
	return Migration(ctx, pool, func(tx pgx.Tx) error { return Forward(ctx, tx, room, migrations) })
}

// Migration does something about tables in one transaction, one process at a time, which may
// take as long as it takes.
func Migration(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	return Classified(alone(ctx, pool, lockKey, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		return do(tx)
	}))
}

// Snapshot reads in one transaction, which sees one state of all tables, and may take as long
// as it takes: nobody waits for what it holds.
func Snapshot(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	return Classified(pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return err
		}
		return do(tx)
	}))
}

// Contract begins a migration after which a nacre that does not know it may not go on: one that
// takes away or changes what the version before reads or writes. All others only add to it, so
// that nodes of both versions work side by side while one is put in the place of the other
// . What a version does not need any more is taken away by the next.
const Contract = "/* contract */ "

// Forward is one room's part of a [Migration]. Tables of a newer nacre are [ErrNewer], unless it
// only added to them.
func Forward(ctx context.Context, tx pgx.Tx, room string, migrations []string) error {
	if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS nacre_version (room text PRIMARY KEY, version integer NOT NULL)"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "ALTER TABLE nacre_version ADD COLUMN IF NOT EXISTS oldest integer"); err != nil {
		return err
	}
	var have Version
	err := tx.QueryRow(ctx, "SELECT version, coalesce(oldest, version) FROM nacre_version WHERE room = $1", room).Scan(&have.Tables, &have.Oldest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if !have.Accepts(len(migrations)) {
		return fmt.Errorf("%w (the tables of %s are at version %d, and this nacre knows %d)", ErrNewer, room, have.Tables, len(migrations))
	}
	if have.Tables >= len(migrations) {
		return nil
	}
	for _, m := range migrations[have.Tables:] {
		if _, err := tx.Exec(ctx, m); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, "INSERT INTO nacre_version (room, version, oldest) VALUES ($1, $2, $3) ON CONFLICT (room) DO UPDATE SET version = $2, oldest = $3",
		room, len(migrations), oldest(migrations))
	return err
}

// oldest is the first version of which a nacre may go on with the tables: that of the last
// contraction.
func oldest(migrations []string) int {
	for i := len(migrations); i > 0; i-- {
		if strings.HasPrefix(migrations[i-1], Contract) {
			return i
		}
	}
	return 0
}

// Version is that of a room's tables, and the oldest of which a nacre may use them.
type Version struct{ Tables, Oldest int }

// Accepts tells whether a nacre that knows so many migrations may use the tables.
func (v Version) Accepts(known int) bool {
	return v.Tables >= 0 && v.Oldest <= v.Tables && v.Oldest <= known
}

// State is what a database says of itself.
type State struct {
	// Owner is the installation that it belongs to; empty where none has used it yet.
	Owner string
	// Server is the version of PostgreSQL, Now its clock.
	Server string
	Now    time.Time
	// ReadOnly says that it takes no writes.
	ReadOnly bool
	// Versions are those of the rooms' tables.
	Versions map[string]Version
}

// Look asks a database what it is, and changes nothing. Another installation's is [ErrForeign].
func Look(ctx context.Context, address, installation string) (s State, err error) {
	if _, err := nacre.ParsePluginName(installation); err != nil {
		return s, ErrUnnamed
	}
	options, err := parse(address)
	if err != nil {
		return s, err
	}
	conn, err := pgx.ConnectConfig(ctx, options.ConnConfig)
	if err != nil {
		return s, Classified(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only read
	if err := s.ask(ctx, conn); err != nil {
		return s, Classified(err)
	}
	if s.Owner != "" && s.Owner != installation {
		return s, fmt.Errorf("%w (it is %.64q's, and this one is %q)", ErrForeign, s.Owner, installation)
	}
	return s, nil
}

func (s *State) ask(ctx context.Context, conn *pgx.Conn) error {
	var owned, versioned bool
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version'), clock_timestamp(), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
		to_regclass('nacre_installation') IS NOT NULL, to_regclass('nacre_version') IS NOT NULL`).Scan(&s.Server, &s.Now, &s.ReadOnly, &owned, &versioned)
	if err != nil {
		return err
	}
	if owned {
		if err := conn.QueryRow(ctx, "SELECT name FROM nacre_installation").Scan(&s.Owner); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	s.Versions = map[string]Version{}
	if !versioned {
		return nil
	}
	rows, err := conn.Query(ctx, "SELECT room, version, coalesce((to_jsonb(v)->>'oldest')::integer, version) FROM nacre_version v")
	if err != nil {
		return err
	}
	var room string
	var version Version
	_, err = pgx.ForEachRow(rows, []any{&room, &version.Tables, &version.Oldest}, func() error { s.Versions[room] = version; return nil })
	return err
}

// reason is what a person is told of a code of PostgreSQL's errors.
func reason(code string) error {
	switch {
	case code == "25006":
		return ErrReadOnly
	case code == "53100":
		return ErrFull
	case code == "57014":
		return ErrSlow
	case code == "55P03", code == "40P01":
		return ErrHeld
	case code == "25P03":
		return ErrIdle
	case strings.HasPrefix(code, "28"), code == "42501":
		return ErrRefused
	case strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "08"), code == "53300", code == "3D000":
		return ErrAway
	}
	return nil
}

// Classified is an error of the driver's as a person is told of it. What the server
// says of itself is kept, and the address is not.
func Classified(err error) error {
	var server *pgconn.PgError
	var connecting *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &server):
		if why := reason(server.Code); why != nil {
			return fmt.Errorf("%w (%s)", why, server.Code)
		}
		return fmt.Errorf("the database: %s (%s)", server.Message, server.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return ErrSlow
	case errors.As(err, &connecting), errors.As(err, &network), pgconn.SafeToRetry(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // it hung up while it was waited for
		return ErrAway
	}
	return err
}
