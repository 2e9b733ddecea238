package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// maxPowers is how many powers one run may use.
const maxPowers = 64

// Uses are the powers that a run used, such as the installation of packages. The zero value is none.
type Uses struct {
	Powers []string
	// Task tells tasks apart: a digest of the operator's words.
	Task string
	// Tainted says that the run had listened to an outsider.
	Tainted bool
	// Failed says that the run speaks against them, although its work may have landed before it failed.
	Failed bool
}

func (u Uses) check() error {
	if len(u.Powers) > maxPowers || len(u.Powers) > 0 && u.Task == "" {
		return fmt.Errorf("%w: a run uses at most %d powers, for a task", ErrInvalid, maxPowers)
	}
	for _, power := range append([]string{u.Task}, u.Powers...) {
		if err := checkWord("power", power); err != nil {
			return err
		}
	}
	return nil
}

func (u Uses) keep(ctx context.Context, tx database.Session, run int64) error {
	for _, power := range u.Powers {
		_, err := tx.ExecContext(ctx, `INSERT INTO uses(run, power, task, tainted) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, run, power, u.Task, u.Tainted)
		if err != nil {
			return err
		}
	}
	return nil
}

// testify adds what became of a run to the evidence of each power that it used: for it where its work is
// verified, against it where it failed. Empty says nothing.
func testify(ctx context.Context, tx database.Session, run int64, at, what string, a Anchor) error {
	if what == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO evidence(power, what, at, run, chain, position, hash) SELECT power, ?, ?, run, ?, CAST(? AS bigint), ? FROM uses WHERE run = ?`,
		what, at, a.Chain, int64(a.Seq), a.Hash, run) //nolint:gosec // at most 2^53, checked
	return err
}

// testimony is what a run says of the powers that it used; empty where it is neither verified nor failed.
func testimony(failed, verified bool) string {
	switch {
	case failed:
		return Broken
	case verified:
		return Held
	}
	return ""
}

// What evidence says of a power.
const (
	// Held is a run that used it, whose work is verified; Broken one whose work failed.
	Held   = "held"
	Broken = "failed"
	// Granted and Revoked are a person's.
	Granted = "granted"
	Revoked = "revoked"
)

// Evidence is one fact about a power, and the audit record that it stands on.
type Evidence struct {
	Power string    `json:"power"`
	What  string    `json:"what"`
	At    time.Time `json:"at"`
	// Until is when what was granted ends.
	Until time.Time `json:"until,omitzero"`
	// Who granted or revoked it.
	Who string `json:"who,omitempty"`
	// DNA is the run's, Task tells its task from others, and Tainted that it had listened to an outsider.
	DNA     string `json:"dna,omitempty"`
	Task    string `json:"task,omitempty"`
	Tainted bool   `json:"tainted,omitempty"`
	Anchor  Anchor `json:"record"`
}

// EvidenceOf is all that is known of a power, in the order in which it became known.
func EvidenceOf(ctx context.Context, l *Ledger, power string) ([]Evidence, error) {
	rows, err := l.at.Reader().QueryContext(ctx, `SELECT e.power, what, at, until, who, coalesce(dna, ''), coalesce(u.task, ''), coalesce(u.tainted, true), chain, position, hash
		FROM evidence e LEFT JOIN runs r ON r.seq = e.run LEFT JOIN uses u ON u.run = e.run AND u.power = e.power WHERE e.power = ? ORDER BY number`, power)
	if err != nil {
		return nil, l.at.Classified(err)
	}
	list, err := evidences(rows)
	return list, l.at.Classified(err)
}

func evidences(rows *sql.Rows) ([]Evidence, error) {
	defer func() { _ = rows.Close() }() // rows.Err says it
	list := []Evidence{}
	for rows.Next() {
		var e Evidence
		var at, until string
		if err := rows.Scan(&e.Power, &e.What, &at, &until, &e.Who, &e.DNA, &e.Task, &e.Tainted, &e.Anchor.Chain, &e.Anchor.Seq, &e.Anchor.Hash); err != nil {
			return nil, err
		}
		var err error
		if e.At, err = time.Parse(stampForm, at); err != nil {
			return nil, fmt.Errorf("%w: evidence from %.40q", sqlitefile.ErrDamaged, at)
		}
		if until != "" {
			if e.Until, err = time.Parse(stampForm, until); err != nil {
				return nil, fmt.Errorf("%w: a grant until %.40q", sqlitefile.ErrDamaged, until)
			}
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// Grant keeps that a person granted a power until a time.
func Grant(ctx context.Context, l *Ledger, power string, until time.Time, who string, a Anchor) error {
	return decree{power, Granted, stamp(until), who, a}.keep(ctx, l)
}

// Revoke keeps that a person took a power back: what spoke for it before counts no more.
func Revoke(ctx context.Context, l *Ledger, power, who string, a Anchor) error {
	return decree{power, Revoked, "", who, a}.keep(ctx, l)
}

// decree is a person's part of the evidence.
type decree struct {
	power, what, until, who string
	anchor                  Anchor
}

func (d decree) keep(ctx context.Context, l *Ledger) error {
	if err := errors.Join(checkWord("power", d.power), checkWord("who", d.who), d.anchor.check()); err != nil {
		return err
	}
	return l.at.Write(ctx, func(tx database.Session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO evidence(power, what, at, until, who, chain, position, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			d.power, d.what, stamp(l.now()), d.until, d.who, d.anchor.Chain, int64(d.anchor.Seq), d.anchor.Hash) //nolint:gosec // at most 2^53, checked
		return err
	})
}

// UsedBy are the powers that a run used. ref is a DNA, or an agent's id, for its latest run.
func UsedBy(ctx context.Context, l *Ledger, ref string) (powers []string, err error) {
	r, err := l.find(ctx, l.at.Reader(), ref)
	if err != nil {
		return nil, err
	}
	rows, err := l.at.Reader().QueryContext(ctx, `SELECT power FROM uses WHERE run = ? ORDER BY power`, r.seq)
	if err != nil {
		return nil, l.at.Classified(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err says it
	for rows.Next() {
		var power string
		if err := rows.Scan(&power); err != nil {
			return nil, l.at.Classified(err)
		}
		powers = append(powers, power)
	}
	return powers, l.at.Classified(rows.Err())
}
