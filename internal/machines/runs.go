package machines

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// runs is the table of runs that are not over: what another machine needs to carry one on. taken names the session
// that does, and taker the lease under which it is being opened. What it was is gone when it is open.
const runs = `
CREATE TABLE nacre_run (
    machine text REFERENCES nacre_machine,
    session text,
    work    text NOT NULL,
    spec    bytea NOT NULL,
    reached bytea NOT NULL,
    pack    bytea NOT NULL,
    taken   text NOT NULL DEFAULT '',
    taker   uuid,
    PRIMARY KEY (machine, session)
);
CREATE INDEX nacre_run_taken ON nacre_run (taken) WHERE taken <> ''`

// Run is one that is not over, as the store has it and its own machine wrote it. It has what it was asked to do, how
// far it had come, and the snapshot of its agent's files.
type Run struct {
	Machine string
	Session nacre.SessionID
	Group   nacre.Group
	// Work names the piece of the session's work.
	Work                string
	Spec, Reached, Pack []byte
}

// Name is what its session is called at other machines.
func (r Run) Name() string { return r.Machine + "/" + string(r.Session) }

// Digest is what the run's own chain says of what is in the store: 64 hex digits. Whoever can write to the
// database alone cannot make another machine do anything else.
func (r Run) Digest() string {
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(r.Work), r.Spec, r.Reached, r.Pack} {
		_ = binary.Write(sum, binary.BigEndian, int64(len(part))) // a digest takes everything
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// CarriedOnError says that another machine goes on with a run, since it took this one for lost.
type CarriedOnError struct{ As string }

func (e *CarriedOnError) Error() string {
	return fmt.Sprintf("other machines took this one for lost, and the work goes on as %s: nacre sessions show %s", e.As, e.As)
}

// carriedAs is what the list of sessions says of a run before the name of the session that goes on with it.
const carriedAs = "carried on as "

// ErrNotTaken says that nobody can take a run any more: it goes on, is over, or another machine has it.
var ErrNotTaken = errors.New("the run is not lost any more")

// KeepRun keeps a run of this machine for others, under this process's lease. Where anew is true, one of the same
// work stays as it is. It waits for a store that is away as a record does. Error: [CarriedOnError].
func (s *Sessions) KeepRun(ctx context.Context, r Run, anew bool) error {
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	return patiently(ctx, patience, func(ctx context.Context) error { return s.keepRun(ctx, pool, name, r, anew) })
}

func (s *Sessions) keepRun(ctx context.Context, pool *pgxpool.Pool, name string, r Run, anew bool) error {
	err := s.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO nacre_run AS r (machine, session, work, spec, reached, pack) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (machine, session) DO UPDATE SET work = $3, spec = $4, reached = $5, pack = $6, taken = '', taker = NULL
			WHERE r.work <> $3 OR r.taken = '' AND NOT $7`, name, string(r.Session), r.Work, r.Spec, r.Reached, r.Pack, anew)
		if err != nil {
			return err
		}
		if err := carriedOn(ctx, tx, name, r.Session); err != nil {
			return err
		}
		// What it took over is its own now, and nobody takes it anew.
		_, err = tx.Exec(ctx, `UPDATE nacre_run SET spec = '', reached = '', pack = '', taker = NULL WHERE taken = $1`, name+"/"+string(r.Session))
		return err
	})
	return told(err)
}

// carriedOn is [CarriedOnError] where another machine goes on with a session's run.
func carriedOn(ctx context.Context, from queryer, machine string, id nacre.SessionID) error {
	var as string
	err := from.QueryRow(ctx, `SELECT coalesce(max(taken), '') FROM nacre_run WHERE machine = $1 AND session = $2`, machine, string(id)).Scan(&as)
	if err == nil && as != "" {
		err = &CarriedOnError{As: as}
	}
	return err
}

// ForgetRun ends that other machines could carry a session's work on.
func (s *Sessions) ForgetRun(ctx context.Context, id nacre.SessionID) error {
	if s == nil {
		return nil
	}
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	return patiently(ctx, asking, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, `DELETE FROM nacre_run WHERE machine = $1 AND session = $2`, name, string(id))
		return told(err)
	})
}

// adrift is a run of a session that is recorded as lost, which nobody has taken, or who had taken it is over, too.
const adrift = `r.spec <> '' AND s.state = '` + string(nacre.SessionNodeLost) + `' AND (r.taken = '' OR NOT EXISTS (SELECT FROM nacre_node n WHERE n.incarnation = r.taker AND n.until > '-infinity'))`

// LostRuns are those of other machines that could be carried on, without their snapshots.
func (s *Sessions) LostRuns(ctx context.Context) ([]Run, error) {
	if s == nil {
		return nil, nil
	}
	pool, name, err := s.room(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, `SELECT r.machine, r.session, s.owner, r.work, r.spec, r.reached FROM nacre_run r JOIN nacre_session s USING (machine, session)
		WHERE r.machine <> $1 AND `+adrift+` LIMIT $2`, name, atOnce)
	if err != nil {
		return nil, told(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Run, err error) {
		return r, row.Scan(&r.Machine, &r.Session, &r.Group, &r.Work, &r.Spec, &r.Reached)
	})
	return list, told(err)
}

// TakeRun makes a lost run that of a session here, which has not begun yet, and gives its snapshot too. It is
// for a node, and under its lease. Error: [ErrNotTaken].
func (s *Sessions) TakeRun(ctx context.Context, r Run, as nacre.SessionID) (Run, error) {
	pool, name, err := s.room(ctx)
	if err != nil {
		return r, err
	}
	err = s.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		// Its own machine, where that is back, either has said so before or waits here.
		if _, err := tx.Exec(ctx, `SELECT FROM nacre_session WHERE machine = $1 AND session = $2 FOR UPDATE`, r.Machine, string(r.Session)); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `UPDATE nacre_run r SET taken = $3, taker = $4 FROM nacre_session s WHERE r.machine = $1 AND r.session = $2
				AND s.machine = r.machine AND s.session = r.session AND `+adrift+` RETURNING r.work, r.spec, r.reached, r.pack`,
			r.Machine, string(r.Session), name+"/"+string(as), s.store.Holder()).Scan(&r.Work, &r.Spec, &r.Reached, &r.Pack)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotTaken
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE nacre_session SET outcome = $3 WHERE machine = $1 AND session = $2`, r.Machine, string(r.Session), carriedAs+name+"/"+string(as))
		}
		return err
	})
	return r, told(err)
}

// LeaveRun gives a lost run back that a session here has taken, or may have, and could not begin. It waits for a store
// that is away as a record does: nobody else takes the run while this node lives.
func (s *Sessions) LeaveRun(ctx context.Context, as nacre.SessionID) error {
	pool, name, err := s.room(ctx)
	if err != nil {
		return err
	}
	return patiently(ctx, patience, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, `WITH given AS (UPDATE nacre_run SET taken = '', taker = NULL WHERE taken = $1 AND spec <> '' RETURNING machine, session)
			UPDATE nacre_session s SET outcome = s.state FROM given g WHERE s.machine = g.machine AND s.session = g.session AND s.outcome = $2`,
			name+"/"+string(as), carriedAs+name+"/"+string(as))
		return told(err)
	})
}

// Kept is the record of a run that is kept for other machines.
func (r Run) Kept(now time.Time) nacre.Record {
	detail, _ := json.Marshal(kept{r.Work, r.Digest()}) // texts
	return nacre.Record{Time: now, Kind: nacre.KindRunKept, Source: "core", Detail: detail}
}

type kept struct {
	Work   string `json:"work"`
	Digest string `json:"digest"`
}

// Told gives the records of the openings in which a run was worked on to take, after they were verified. What
// the store has of it is an error where its own machine did not write it, or has recorded the run's end.
func (m *Machine) Told(ctx context.Context, r Run, take func(audit.Entry) error) error {
	own, same, over := false, false, false
	err := m.Read(ctx, r.Machine, r.Session, func(e audit.Entry) error {
		var d kept
		_ = json.Unmarshal(e.Detail, &d) // a record of another kind has another
		if e.Kind == nacre.KindSessionOpen {
			own = d.Work == r.Work
		}
		if !own {
			return nil
		}
		same = same || e.Kind == nacre.KindRunKept && d == kept{r.Work, r.Digest()}
		over = over || e.Kind == nacre.KindOutcome
		return take(e)
	})
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("run %s: %w: its machine did not write what the store has of it", r.Name(), audit.ErrTampered)
	case over:
		return fmt.Errorf("run %s: %w", r.Name(), ErrNotTaken)
	}
	return nil
}
