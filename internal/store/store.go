// Package store is what a person does with the database that the machines of an installation share
// . They bring its tables forward, hold them against what they should be, keep a copy in a
// file, and put a copy into an empty database.
//
// It promises that tables of a newer nacre are refused. A copy is of one moment and is refused when
// a byte of it is another. It is put in whole or not at all, into a database of the same
// installation in which nothing is. No node of before goes on in a database that was put together
// from a copy. What the tables mean is their rooms' to know.
package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/store/tables"
)

// ErrNone says that the installation has no store.
var ErrNone error = &installation.NotReady{
	What: "this installation has no [store]: one machine keeps its records in its state folder",
	Next: "docs/scale.md says how several machines share one",
}

func of(inst *installation.Installation) (*database.Store, error) {
	s := inst.Registry.Store()
	if s == nil {
		return nil, ErrNone
	}
	return s, nil
}

// Version is that of the tables of one room: 0 where there are none yet.
type Version struct {
	Room string `json:"room"`
	Have int    `json:"have"`
	Want int    `json:"want"`
}

// Migrate brings all tables forward, all of them or none, and tells what they were before. This
// machine then asks to be admitted, the first one holds the installation's key, and what the
// store lacks of this machine's chains and memories is put in.
// Whoever uses a table first does the same for its room.
func Migrate(ctx context.Context, inst *installation.Installation) ([]Version, error) {
	s, err := of(inst)
	if err != nil {
		return nil, err
	}
	before, err := s.Look(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := s.Connected(ctx)
	if err != nil {
		return nil, err
	}
	err = database.Migration(ctx, pool, func(tx pgx.Tx) error {
		for _, r := range tables.Rooms() {
			if err := database.Forward(ctx, tx, r.Name, r.Migrations); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return versions(before), err
	}
	_, err = machines.Of(inst.Registry, inst.Keys).Bring(ctx)
	return versions(before), errors.Join(err, bringMemories(ctx, inst))
}

// bringMemories moves what this machine has in files of its own into the store.
func bringMemories(ctx context.Context, inst *installation.Installation) error {
	groups, err := installation.MemoryFiles(inst)
	for _, group := range groups {
		if _, failed := installation.BringMemory(ctx, inst, group); failed != nil {
			err = errors.Join(err, fmt.Errorf("the memory of group %s stays in its file: %w", group, failed))
		}
	}
	return err
}

func versions(s database.State) (all []Version) {
	for _, r := range tables.Rooms() {
		all = append(all, Version{r.Name, s.Versions[r.Name].Tables, len(r.Migrations)})
	}
	return all
}

// Report is what a look at all of the store found.
type Report struct {
	Installation string    `json:"installation"`
	Server       string    `json:"server"`
	Versions     []Version `json:"versions"`
	// Rows are how many there are, by table.
	Rows map[string]int64 `json:"rows"`
	// Problems are what does not hold, in words, with what to do.
	Problems []string `json:"problems"`
}

// tableMade finds the tables that migrations make.
func tableMade() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)`)
}

// Verify holds the store against what it should be, and changes nothing.
func Verify(ctx context.Context, inst *installation.Installation) (Report, error) {
	s, err := of(inst)
	if err != nil {
		return Report{}, err
	}
	state, err := s.Look(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Installation: state.Owner, Server: state.Server, Versions: versions(state), Rows: map[string]int64{}, Problems: []string{}}
	r.hold(state)
	if state.Owner == "" {
		return r, nil
	}
	pool, err := s.Connected(ctx)
	if err != nil {
		return r, err
	}
	return r, database.Snapshot(ctx, pool, func(tx pgx.Tx) error {
		if err := r.count(ctx, tx, state); err != nil {
			return err
		}
		return r.revocations(ctx, tx, inst)
	})
}

// revocations tells what is revoked on this machine, and not in the store.
func (r *Report) revocations(ctx context.Context, tx pgx.Tx, inst *installation.Installation) error {
	if _, there := r.Rows["nacre_revocation"]; !there {
		return nil
	}
	ids, principals, err := inst.Revoked.Kept(inst.Options.Now())
	if err != nil {
		return err
	}
	gone, err := shared.Gone(ctx, tx, ids, principals)
	for _, what := range gone {
		r.problem("%.80q is revoked on this machine and not in the store: somebody removed it there, put a copy of the store back, or it was revoked before [store] was set. It stays revoked here, and nacre grants revoke makes it so on all machines", what)
	}
	return err
}

// hold compares versions, and says of what it is that nobody can write to it.
func (r *Report) hold(state database.State) {
	known := map[string]bool{}
	for _, v := range r.Versions {
		known[v.Room] = true
		switch {
		case !state.Versions[v.Room].Accepts(v.Want):
			r.problem("the tables of %s are at version %d, and this nacre knows %d: upgrade this machine", v.Room, v.Have, v.Want)
		case v.Have < v.Want:
			r.problem("the tables of %s are at version %d of %d: nacre store migrate", v.Room, v.Have, v.Want)
		}
	}
	for room, v := range state.Versions {
		if !known[room] && !v.Accepts(0) {
			r.problem("the tables of %.64q are a newer nacre's: upgrade this machine", room)
		}
	}
	if state.ReadOnly {
		r.problem("%v", database.ErrReadOnly)
	}
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// count counts the rows of each table, and those that somebody has to look at.
func (r *Report) count(ctx context.Context, tx pgx.Tx, state database.State) error {
	made := tableMade()
	for _, room := range tables.Rooms() {
		for _, m := range room.Migrations[:min(state.Versions[room.Name].Tables, len(room.Migrations))] {
			for _, found := range made.FindAllStringSubmatch(m, -1) {
				if err := r.countTable(ctx, tx, found[1]); err != nil {
					return err
				}
			}
		}
	}
	if _, there := r.Rows["nacre_message"]; !there || state.Versions["inbox"].Tables < len(inbox.Migrations()) {
		return nil
	}
	var aside int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM nacre_message WHERE aside`).Scan(&aside); err != nil {
		return err
	}
	if aside > 0 {
		r.problem("%d messages cannot be read and are set aside in nacre_message: look at them, and delete the rows", aside)
	}
	return nil
}

func (r *Report) countTable(ctx context.Context, tx pgx.Tx, table string) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil {
		return err
	}
	if !there {
		r.problem("the table %s is gone: restore a backup into an empty database", table)
		return nil
	}
	var rows int64
	err := tx.QueryRow(ctx, `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize()).Scan(&rows)
	r.Rows[table] = rows
	return err
}

// admitted tells what keeps this machine from recording anything.
func admitted(ctx context.Context, inst *installation.Installation) []installation.Finding {
	me, holder, asked, err := machines.Of(inst.Registry, inst.Keys).Standing(ctx)
	switch {
	case err != nil:
		return []installation.Finding{{Name: "store", Status: "fail", Text: err.Error(), Fix: "nothing that machines share works until then (docs/scale.md)"}}
	case !asked:
		return []installation.Finding{{Name: "store", Status: "warn", Text: "this machine has not asked to be admitted yet: its first session does", Fix: "nacre store machines asks now"}}
	case !me.Admitted:
		return []installation.Finding{{Name: "store", Status: "fail", Text: "this machine, " + me.Name + ", is not admitted, so no session begins here", Fix: "on machine " + holder + ": nacre store admit " + me.Name}}
	}
	return []installation.Finding{{Name: "store", Status: "ok", Text: "this machine is admitted as " + me.Name}}
}

// drift is how far the clocks of a machine and of the database may be apart unremarked.
const drift = 5 * time.Second

// Check is the store's part of nacre doctor. Without a store there is nothing to say.
func Check(ctx context.Context, inst *installation.Installation) []installation.Finding {
	s, err := of(inst)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	began := time.Now()
	state, err := s.Look(ctx)
	if err != nil {
		return []installation.Finding{{Name: "store", Status: "fail", Text: err.Error(), Fix: "nothing that machines share works until then (docs/scale.md)"}}
	}
	took := time.Since(began)
	r := Report{Versions: versions(state)}
	r.hold(state)
	var findings []installation.Finding
	if apart := inst.Options.Now().Sub(state.Now); apart.Abs() > drift+took {
		findings = append(findings, installation.Finding{
			Name: "store", Status: "warn", Text: fmt.Sprintf("the clock of this machine is %v from the database's", apart.Round(time.Second)),
			Fix: "set both by NTP: times of schedules are of this machine's clock",
		})
	}
	for _, p := range r.Problems {
		findings = append(findings, installation.Finding{Name: "store", Status: "fail", Text: p, Fix: "nacre store verify tells more"})
	}
	if len(r.Problems) == 0 {
		findings = append(findings, admitted(ctx, inst)...)
		findings = append(findings, installation.Finding{Name: "store", Status: "ok", Text: fmt.Sprintf("PostgreSQL %s, of installation %s · %d ms to ask", state.Server, s.Installation(), took.Milliseconds())})
	}
	return findings
}
