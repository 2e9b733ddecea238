package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// doom walks from what was chosen to all that derives from it.
func (s *Store) doom(ctx context.Context, tx *sql.Tx, f Forget) (Erasure, error) {
	chosen, err := s.chosen(ctx, tx, f)
	if err != nil {
		return Erasure{}, err
	}
	w := walk{why: map[string]Doomed{}}
	for _, id := range chosen {
		w.reach(id, "chosen", "")
	}
	kinds := []string{trailDerived, trailSupersedes}
	if f.Recalled {
		kinds = append(kinds, trailRecalled)
	}
	for len(w.next) > 0 {
		if len(w.order) > MaxForget {
			return Erasure{}, fmt.Errorf("%w: more than %d entries would go: choose fewer", ErrLimit, MaxForget)
		}
		if err := w.step(ctx, tx, kinds, f.Session == ""); err != nil {
			return Erasure{}, err
		}
	}
	return s.erasure(ctx, tx, &w)
}

// chosen are the ids that an erasure begins with.
func (s *Store) chosen(ctx context.Context, tx *sql.Tx, f Forget) ([]string, error) {
	set := 0
	for _, given := range []string{f.ID, string(f.Session), f.Match} {
		if given != "" {
			set++
		}
	}
	if set != 1 {
		return nil, fmt.Errorf("%w: name one of an entry, a session and a text", ErrInvalid)
	}
	switch {
	case f.ID != "":
		found, err := texts(tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE id = ?1 AND group_name = ?2
			UNION SELECT parent FROM memory_trail WHERE parent = ?1 UNION SELECT child FROM memory_trail WHERE child = ?1`, f.ID, string(s.group)))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%w: %.80q", ErrNotFound, f.ID)
		}
		return found, err
	case f.Session != "":
		return texts(tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE session_id = ? AND group_name = ? ORDER BY seq LIMIT ?`, string(f.Session), string(s.group), MaxForget+1))
	}
	if strings.TrimSpace(f.Match) == "" {
		return nil, fmt.Errorf("%w: the text to match is empty", ErrInvalid)
	}
	// lower knows ASCII only; what is matched as it is written is found anyway.
	return texts(tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE (instr(lower(content), lower(?1)) > 0 OR instr(content, ?1) > 0
		OR EXISTS (SELECT 1 FROM json_each(tags) WHERE instr(lower(value), lower(?1)) > 0)) AND group_name = ?2 ORDER BY seq LIMIT ?3`, f.Match, string(s.group), MaxForget+1))
}

// walk is a walk over the trail. Entries that are gone already are walked through.
type walk struct {
	why   map[string]Doomed
	order []string
	next  []string
}

func (w *walk) reach(id, why, of string) {
	if _, known := w.why[id]; known {
		return
	}
	w.why[id] = Doomed{Why: why, Of: of}
	w.order, w.next = append(w.order, id), append(w.next, id)
}

// step goes one further: to what derives and, with versions, to what was replaced.
func (w *walk) step(ctx context.Context, tx *sql.Tx, kinds []string, versions bool) error {
	from, err := json.Marshal(w.next)
	if err != nil {
		return err
	}
	along, err := json.Marshal(kinds)
	if err != nil {
		return err
	}
	w.next = nil
	rows, err := tx.QueryContext(ctx, `SELECT parent, child, kind, 0 FROM memory_trail WHERE parent IN (SELECT value FROM json_each(?1)) AND kind IN (SELECT value FROM json_each(?2))
		UNION ALL SELECT parent, child, kind, 1 FROM memory_trail WHERE ?3 AND kind = 'supersedes' AND child IN (SELECT value FROM json_each(?1)) LIMIT ?4`,
		string(from), string(along), versions, 2*MaxForget)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var parent, child, kind string
		var back bool
		if err := rows.Scan(&parent, &child, &kind, &back); err != nil {
			return err
		}
		if back {
			w.reach(parent, "superseded", child)
		} else {
			w.reach(child, kind, parent)
		}
	}
	return rows.Err()
}

// erasure reads the entries that were reached.
func (s *Store) erasure(ctx context.Context, tx *sql.Tx, w *walk) (Erasure, error) {
	e := Erasure{Entries: []Doomed{}, Restored: []string{}}
	ids, err := json.Marshal(w.order)
	if err != nil {
		return e, err
	}
	found, err := hitsOf(tx.QueryContext(ctx, `SELECT `+columns+`, 0.0 FROM memory_entries e WHERE e.group_name = ? AND e.id IN (SELECT value FROM json_each(?)) ORDER BY e.seq`, string(s.group), string(ids)))
	if err != nil {
		return e, err
	}
	for _, h := range found {
		d := w.why[h.ID]
		d.Entry = h.Entry
		e.Entries = append(e.Entries, d)
	}
	restored, err := texts(tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE group_name = ?1 AND superseded_by IN (SELECT value FROM json_each(?2))
		AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY seq`, string(s.group), string(ids)))
	if err != nil {
		return e, err
	}
	e.Restored = append(e.Restored, restored...)
	err = tx.QueryRowContext(ctx, `SELECT count(DISTINCT e.id) FROM memory_trail t JOIN memory_entries e ON e.id = t.child WHERE t.kind = 'recalled' AND e.group_name = ?1
		AND t.parent IN (SELECT value FROM json_each(?2)) AND e.id NOT IN (SELECT value FROM json_each(?2))`, string(s.group), string(ids)).Scan(&e.Recalled)
	slices.Sort(e.Restored)
	return e, err
}
