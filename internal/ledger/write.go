package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/dna"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Begin adds a run that is running, with its texts, whole or not at all. An
// agent id that is running, or a DNA that is there, is an ErrTaken.
func (l *Ledger) Begin(ctx context.Context, s Start) error {
	if err := s.check(); err != nil {
		return err
	}
	return l.at.Write(ctx, func(tx database.Session) error {
		var taken string
		err := tx.QueryRowContext(ctx, `SELECT dna FROM runs WHERE dna = ? OR (id = ? AND status = 'running' AND interrupted = '')`, s.DNA, s.ID).Scan(&taken)
		switch {
		case err == nil && taken == s.DNA:
			return fmt.Errorf("%w: %s", ErrTaken, s.DNA)
		case err == nil:
			return fmt.Errorf("%w: agent %s is running as %s", ErrTaken, s.ID, taken)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		prompt := digest([]byte(s.Prompt))
		if _, err := tx.ExecContext(ctx, `INSERT INTO specs(spec_sha, task) VALUES (?, ?) ON CONFLICT (spec_sha) DO UPDATE SET task = excluded.task WHERE specs.task = ''`, s.SpecSHA, string(s.Task)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO prompts(prompt_sha, prompt) VALUES (?, ?) ON CONFLICT (prompt_sha) DO UPDATE SET prompt = excluded.prompt WHERE prompts.prompt = ''`, prompt, s.Prompt); err != nil {
			return err
		}
		at := stampOf(l.now, s.At)
		var seq int64
		err = tx.QueryRowContext(ctx, `INSERT INTO runs(id, parent, parent_seq, role, branch, session, spec_sha, prompt_sha, dna, status, started, provider, model)
			VALUES (?1, ?2, (SELECT max(seq) FROM runs WHERE id = ?2), ?3, ?4, ?5, ?6, ?7, ?8, 'running', ?9, ?10, ?11) RETURNING seq`,
			s.ID, s.Parent, s.Role, s.Branch, l.machine.named(s.Session), s.SpecSHA, prompt, s.DNA, at, s.Provider, s.Model).Scan(&seq)
		if err != nil {
			return err
		}
		return note(ctx, tx, seq, Change{Status: Running, At: at, Anchor: s.Anchor})
	})
}

// Finish ends a running run as done or failed. ref is an agent's id, which
// means its latest run, or a DNA.
func (l *Ledger) Finish(ctx context.Context, ref string, e End) error {
	if err := e.check(); err != nil {
		return err
	}
	return l.move(ctx, ref, Change{Status: e.Status, At: stampOf(l.now, e.At), Anchor: e.Anchor}, e.Outcome, func(tx database.Session, r Run, at string) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET status = ?, finished = ?, summary = ?, cost = ?, tokens_in = ?, tokens_out = ?,
			provider = ?, model = ?, branch = ?, project = ?, tries = ? WHERE seq = ?`, e.Status, at, cut(e.Summary), e.CostMicroUSD, e.TokensIn, e.TokensOut,
			orElse(e.Provider, r.Provider), orElse(e.Model, r.Model), orElse(e.Branch, r.Branch), e.Project, e.Tries, r.seq)
		if err != nil {
			return err
		}
		if err := e.Uses.keep(ctx, tx, r.seq); err != nil {
			return err
		}
		return testify(ctx, tx, r.seq, at, testimony(e.Status == Failed || e.Uses.Failed, e.Outcome.Verified()), e.Anchor)
	})
}

// Interrupt says that no session works on a running run any more, and why.
func (l *Ledger) Interrupt(ctx context.Context, ref, reason string, a Anchor) error {
	return l.at.Write(ctx, func(tx database.Session) error {
		return l.turn(ctx, tx, ref, Running, Change{Status: Interrupted, Reason: cut(reason), Anchor: a})
	})
}

// Resume says that a session goes on with an interrupted run. Another run of the same
// agent that is running is an ErrTaken.
func (l *Ledger) Resume(ctx context.Context, ref string, a Anchor) error {
	return l.at.Write(ctx, func(tx database.Session) error {
		var taken string
		err := tx.QueryRowContext(ctx, `SELECT dna FROM runs WHERE status = 'running' AND interrupted = '' AND id = (SELECT id FROM runs WHERE dna = ?)`, ref).Scan(&taken)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the agent is running as %s", ErrTaken, taken)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		return l.turn(ctx, tx, ref, Interrupted, Change{Status: Running, Anchor: a})
	})
}

// InterruptSession says of the running runs of a session, which is gone, that nobody
// works on them. anchor records each of them, and says where.
func (l *Ledger) InterruptSession(ctx context.Context, session, reason string, anchor func(agent, dna string) (chain string, seq uint64, hash string, err error)) error {
	return l.eachOf(ctx, session, []Status{Running}, anchor, func(r Run, a Anchor) error { return l.Interrupt(ctx, r.DNA, reason, a) })
}

// GiveUpSession ends the runs of a session that have not ended, with which nobody goes on: they failed, or
// are merged where their work had landed.
func (l *Ledger) GiveUpSession(ctx context.Context, session, reason string, landed bool, anchor func(agent, dna string) (chain string, seq uint64, hash string, err error)) error {
	return l.eachOf(ctx, session, []Status{Running, Interrupted}, anchor, func(r Run, a Anchor) error {
		end := End{Status: Failed, Summary: reason, Anchor: a}
		if landed {
			end.Status = Done
		}
		if err := l.Finish(ctx, r.DNA, end); err != nil || !landed {
			return err
		}
		return l.Merge(ctx, r.DNA, Landing{Reason: "its work had landed", Anchor: a})
	})
}

// eachOf does something with each run of a session that stands at one of the statuses.
func (l *Ledger) eachOf(ctx context.Context, session string, statuses []Status, anchor func(agent, dna string) (string, uint64, string, error), do func(Run, Anchor) error) error {
	list, err := query(ctx, l, l.at.Reader(), `session = ? AND status = 'running' ORDER BY seq`, l.machine.named(session))
	if err != nil {
		return err
	}
	for _, r := range list {
		if !slices.Contains(statuses, r.Status) {
			continue
		}
		chain, seq, hash, err := anchor(r.ID, r.DNA)
		if err != nil {
			return err
		}
		if err := do(r, Anchor{chain, seq, hash}); err != nil && !errors.Is(err, ErrTransition) { // it moved meanwhile
			return err
		}
	}
	return nil
}

// turn takes a run from running to interrupted, or back.
func (l *Ledger) turn(ctx context.Context, tx database.Session, ref string, from Status, c Change) error {
	if err := c.Anchor.check(); err != nil {
		return err
	}
	r, err := l.find(ctx, tx, ref)
	if err != nil {
		return err
	}
	if r.Status != from {
		return fmt.Errorf("%w: %s is %s, and %s only follows %s", ErrTransition, r.ID, r.Status, c.Status, from)
	}
	c.At = stamp(l.now())
	since := ""
	if c.Status == Interrupted {
		since = c.At
	}
	if _, err := tx.ExecContext(ctx, `UPDATE runs SET interrupted = ? WHERE seq = ?`, since, r.seq); err != nil {
		return err
	}
	return note(ctx, tx, r.seq, c)
}

// Merge says that the work of a run that is done has landed.
func (l *Ledger) Merge(ctx context.Context, ref string, d Landing) error {
	return l.land(ctx, ref, Merged, d)
}

// Reject says that the work of a run that is done will not land.
func (l *Ledger) Reject(ctx context.Context, ref string, d Landing) error {
	return l.land(ctx, ref, Rejected, d)
}

func (l *Ledger) land(ctx context.Context, ref string, to Status, d Landing) error {
	if err := errors.Join(d.Outcome.check(), d.Anchor.check()); err != nil {
		return err
	}
	return l.move(ctx, ref, Change{Status: to, Reason: cut(d.Reason), Anchor: d.Anchor}, d.Outcome, func(tx database.Session, r Run, _ string) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET status = ? WHERE seq = ?`, to, r.seq)
		return err
	})
}

// Decide keeps what a person decided of a run that has ended: whether its work
// holds. It takes the place of every verdict before, and moves no status (M-50).
func (l *Ledger) Decide(ctx context.Context, ref string, d Landing) error {
	if err := errors.Join(d.Outcome.check(), d.Anchor.check()); err != nil {
		return err
	}
	if d.Outcome.by != byPerson {
		return fmt.Errorf("%w: only a person decides after the end of a run", ErrInvalid)
	}
	return l.at.Write(ctx, func(tx database.Session) error {
		r, err := l.find(ctx, tx, ref)
		if err != nil {
			return err
		}
		if r.Status == Running || r.Status == Interrupted {
			return fmt.Errorf("%w: %s is %s, and has not ended", ErrTransition, r.ID, r.Status)
		}
		if err := judge(ctx, tx, r, d.Outcome); err != nil {
			return err
		}
		at := stamp(l.now())
		if err := testify(ctx, tx, r.seq, at, testimony(!d.Outcome.Verified(), d.Outcome.Verified()), d.Anchor); err != nil {
			return err
		}
		return note(ctx, tx, r.seq, Change{Status: r.Status, At: at, Reason: cut(d.Reason), Anchor: d.Anchor})
	})
}

// judge keeps an outcome.
func judge(ctx context.Context, tx database.Session, r Run, known Outcome) error {
	_, err := tx.ExecContext(ctx, `UPDATE runs SET verdict = ?, verdict_by = ?, verdict_who = ? WHERE seq = ?`, known.verdict, known.by, known.who, r.seq)
	return err
}

// move takes one step of one run, if it leads forward, and notes it.
func (l *Ledger) move(ctx context.Context, ref string, c Change, known Outcome, update func(tx database.Session, r Run, at string) error) error {
	return l.at.Write(ctx, func(tx database.Session) error {
		r, err := l.find(ctx, tx, ref)
		if err != nil {
			return err
		}
		if from := before(c.Status); r.Status != from && (from != Running || r.Status != Interrupted) {
			return fmt.Errorf("%w: %s is %s, and %s only follows %s", ErrTransition, r.ID, r.Status, c.Status, from)
		}
		c.At = orElse(c.At, stamp(l.now()))
		if err := update(tx, r, c.At); err != nil {
			return err
		}
		if !known.IsZero() && (known.Counts() || !r.Outcome.Counts()) {
			if err := judge(ctx, tx, r, known); err != nil {
				return err
			}
		}
		return note(ctx, tx, r.seq, c)
	})
}

// before is the one status from which another is reached.
func before(to Status) Status {
	switch to {
	case Done, Failed:
		return Running
	case Merged, Rejected:
		return Done
	}
	return ""
}

// note adds a change to a run's history.
func note(ctx context.Context, tx database.Session, run int64, c Change) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO changes(run, number, status, at, reason, chain, position, hash)
		VALUES (?1, (SELECT count(*) FROM changes WHERE run = ?1), ?2, ?3, ?4, ?5, ?6, ?7)`,
		run, c.Status, c.At, c.Reason, c.Anchor.Chain, int64(c.Anchor.Seq), c.Anchor.Hash) //nolint:gosec // at most 2^53, checked
	return err
}

// find reads the run that ref names: by DNA, or the latest of an agent, or of a session of
// this machine's.
func (l *Ledger) find(ctx context.Context, q database.Session, ref string) (Run, error) {
	where := `id = ? ORDER BY seq DESC LIMIT 1`
	if _, err := dna.ParseLenient(ref); err == nil {
		where = `dna = ?`
	}
	list, err := query(ctx, l, q, where, ref)
	if err != nil {
		return Run{}, err
	}
	if len(list) == 0 { // no agent bears the name, and a session may
		if list, err = query(ctx, l, q, `session = ? AND session != '' ORDER BY seq DESC LIMIT 1`, l.machine.named(ref)); err != nil {
			return Run{}, err
		}
	}
	if len(list) == 0 {
		return Run{}, fmt.Errorf("%w: %.80q", ErrNotFound, ref)
	}
	return list[0], nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
