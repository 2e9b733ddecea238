package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

const (
	// MaxList is the most rows that a list gives.
	MaxList = 10_000
	// maxDepth is how deep descendants are followed.
	maxDepth = 64
)

// Filter says which rows are listed; the zero value means the latest MaxList.
type Filter struct {
	// Status, where not empty, is the only one listed.
	Status Status
	// DNA, where not empty, is what a row's DNA begins with.
	DNA string
	// Limit is the most rows given, the latest; zero means MaxList.
	Limit int
}

const columns = `SELECT seq, id, parent, coalesce(parent_seq, 0), role, branch, session, spec_sha, dna,
	CASE WHEN status = 'running' AND interrupted != '' THEN 'interrupted' ELSE status END, started, finished, summary,
	cost, tokens_in, tokens_out, provider, model, verdict, verdict_by, verdict_who FROM runs WHERE `

func query(ctx context.Context, l *Ledger, q database.Session, where string, args ...any) ([]Run, error) {
	rows, err := q.QueryContext(ctx, columns+where, args...)
	if err != nil {
		return nil, l.at.Classified(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err says it
	list := []Run{}
	for rows.Next() {
		var r Run
		if err := rows.Scan(&r.seq, &r.ID, &r.Parent, &r.parentSeq, &r.Role, &r.Branch, &r.Session, &r.SpecSHA, &r.DNA, &r.Status, &r.Started, &r.Finished, &r.Summary,
			&r.Cost, &r.TokensIn, &r.TokensOut, &r.Provider, &r.Model, &r.Outcome.verdict, &r.Outcome.by, &r.Outcome.who); err != nil {
			return nil, l.at.Classified(err)
		}
		list = append(list, r)
	}
	return l.machine.ours(list), l.at.Classified(rows.Err())
}

// List gives rows, those of the runs that started last first.
func (l *Ledger) List(ctx context.Context, f Filter) ([]Run, error) {
	where, args := []string{"true"}, []any{}
	switch f.Status {
	case "":
	case Running:
		where = append(where, "status = 'running' AND interrupted = ''")
	case Interrupted:
		where = append(where, "status = 'running' AND interrupted != ''")
	default:
		where, args = append(where, "status = ?"), append(args, f.Status)
	}
	if f.DNA != "" {
		// the index holds the first characters; what is longer is compared in full
		short := f.DNA[:min(len(f.DNA), dna.PrefixLength)]
		where = append(where, "substr(dna, 1, 30) >= ? AND substr(dna, 1, 30) < ? AND substr(dna, 1, ?) = ?")
		args = append(args, short, short+"\x7f", len(f.DNA), f.DNA)
	}
	limit := MaxList
	if f.Limit > 0 {
		limit = min(f.Limit, MaxList)
	}
	return query(ctx, l, l.at.Reader(), strings.Join(where, " AND ")+" ORDER BY started DESC, seq DESC LIMIT ?", append(args, limit)...)
}

// Show gives one row with its texts and its history. ref is an agent's id,
// which means its latest run, or a DNA.
func (l *Ledger) Show(ctx context.Context, ref string) (Entry, error) {
	var e Entry
	err := l.at.View(ctx, func(tx database.Session) error { return e.read(ctx, l, tx, ref) })
	return e, l.at.Classified(err)
}

func (e *Entry) read(ctx context.Context, l *Ledger, tx database.Session, ref string) (err error) {
	if e.Run, err = l.find(ctx, tx, ref); err != nil {
		return err
	}
	err = tx.QueryRowContext(ctx, `SELECT task, prompt FROM runs JOIN specs USING (spec_sha) JOIN prompts USING (prompt_sha) WHERE seq = ?`, e.seq).Scan(&e.Task, &e.Prompt)
	if err != nil {
		return err
	}
	// No task is empty: one that is was forgotten.
	if e.Forgotten = e.Task == ""; !e.Forgotten && digest([]byte(e.Task)) != e.SpecSHA {
		return fmt.Errorf("%w: the task of %s does not have the digest %s", sqlitefile.ErrDamaged, e.ID, e.SpecSHA)
	}
	e.Changes, err = history(ctx, tx, e.seq)
	return err
}

func history(ctx context.Context, tx database.Session, run int64) ([]Change, error) {
	rows, err := tx.QueryContext(ctx, `SELECT status, at, reason, chain, position, hash FROM changes WHERE run = ? ORDER BY number`, run)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err says it
	var list []Change
	for rows.Next() {
		var c Change
		if err := rows.Scan(&c.Status, &c.At, &c.Reason, &c.Anchor.Chain, &c.Anchor.Seq, &c.Anchor.Hash); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// Tree gives the latest MaxList rows, each below the one on whose behalf it ran. What has none
// above it comes first, the oldest first.
func (l *Ledger) Tree(ctx context.Context) ([]*Node, error) {
	list, err := l.List(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	nodes, roots := map[int64]*Node{}, []*Node{}
	for _, r := range list {
		n := &Node{Run: r, Children: []*Node{}}
		nodes[r.seq] = n
		if above := nodes[r.parentSeq]; above != nil {
			above.Children = append(above.Children, n)
		} else {
			roots = append(roots, n)
		}
	}
	return roots, nil
}

// Descendants gives those that ran on behalf of one run, directly or through
// others, the oldest first. ref is as for Show.
func (l *Ledger) Descendants(ctx context.Context, ref string) ([]Run, error) {
	top, err := l.find(ctx, l.at.Reader(), ref)
	if err != nil {
		return nil, err
	}
	return query(ctx, l, l.at.Reader(), `seq IN (
		WITH RECURSIVE below(seq, depth) AS (
			SELECT seq, 1 FROM runs WHERE parent_seq = ?
			UNION ALL SELECT runs.seq, depth + 1 FROM runs JOIN below ON runs.parent_seq = below.seq WHERE depth < ?)
		SELECT seq FROM below) ORDER BY seq LIMIT ?`, top.seq, maxDepth, MaxList)
}

// Anchored gives, for each chain in which a change of a row is recorded, the row.
func Anchored(ctx context.Context, l *Ledger) (map[string]Run, error) {
	rows, err := l.at.Reader().QueryContext(ctx, `SELECT DISTINCT chain, id, dna, session, runs.started, runs.finished, CASE WHEN runs.status = 'running' AND interrupted != '' THEN 'interrupted' ELSE runs.status END
		FROM changes JOIN runs ON run = seq`)
	if err != nil {
		return nil, l.at.Classified(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err says it
	anchored := map[string]Run{}
	for rows.Next() {
		var chain string
		var r Run
		if err := rows.Scan(&chain, &r.ID, &r.DNA, &r.Session, &r.Started, &r.Finished, &r.Status); err != nil {
			return nil, l.at.Classified(err)
		}
		anchored[chain] = l.machine.ours([]Run{r})[0]
	}
	return anchored, l.at.Classified(rows.Err())
}
