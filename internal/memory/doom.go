package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
)

// reckoning finds in one transaction what an erasure takes of a group.
type reckoning struct {
	group   nacre.Group
	machine machine
	tx      database.Session
}

// doom walks from what was chosen to all that derives from it.
func (r reckoning) doom(ctx context.Context, f Forget) (Erasure, error) {
	chosen, err := r.chosen(ctx, f)
	if err != nil {
		return Erasure{}, err
	}
	w, err := r.reached(ctx, f, chosen)
	if err != nil {
		return Erasure{}, err
	}
	e, err := r.erasure(ctx, w, f)
	if err != nil || f.Recalled {
		return e, err
	}
	if shown, err := wasRecalled(ctx, r.tx, w.order); err != nil || !shown {
		return e, err
	}
	f.Recalled = true
	further, err := r.reached(ctx, f, chosen)
	if errors.Is(err, ErrLimit) { // which is no reason not to erase what was asked for
		e.Recalled = MaxForget
		return e, nil
	}
	if err != nil {
		return Erasure{}, err
	}
	e.Recalled, err = r.count(ctx, further.order)
	e.Recalled -= len(e.Entries)
	return e, err
}

// reached is a whole walk.
func (r reckoning) reached(ctx context.Context, f Forget, chosen []string) (*walk, error) {
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
			return nil, fmt.Errorf("%w: more than %d entries would go: choose fewer", ErrLimit, MaxForget)
		}
		if err := w.step(ctx, r.tx, kinds, f.Session == ""); err != nil {
			return nil, err
		}
	}
	return &w, nil
}

// wasRecalled tells whether anything was written after one of these was shown.
func wasRecalled(ctx context.Context, tx database.Session, ids []string) (is bool, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return false, err
	}
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM memory_trail WHERE kind = 'recalled' AND parent IN (SELECT value FROM json_each(?1)))`, string(list)).Scan(&is)
	return is, err
}

// doomed are the ids of the entries that an erasure takes, in the order in which
// [Store.Doom] tells of them, and of those that it brings back.
func (r reckoning) doomed(ctx context.Context, f Forget) (ids, restored []string, err error) {
	chosen, err := r.chosen(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	w, err := r.reached(ctx, f, chosen)
	if err != nil {
		return nil, nil, err
	}
	list, err := json.Marshal(w.order)
	if err != nil {
		return nil, nil, err
	}
	ids, err = texts(r.tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE +group_name = ?2 AND id IN (SELECT value FROM json_each(?1)) ORDER BY +seq`, string(list), string(r.group)))
	if err != nil {
		return nil, nil, err
	}
	restored, err = texts(r.tx.QueryContext(ctx, restoredBy, string(r.group), string(list)))
	return ids, restored, err
}

// restoredBy are the entries that become current again where others go.
const restoredBy = `SELECT id FROM memory_entries WHERE +group_name = ?1 AND superseded_by IN (SELECT value FROM json_each(?2))
	AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY +seq`

// count is how many of the ids are entries that are there.
func (r reckoning) count(ctx context.Context, ids []string) (n int, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	err = r.tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_entries WHERE +group_name = ?2 AND id IN (SELECT value FROM json_each(?1))`, string(list), string(r.group)).Scan(&n)
	return n, err
}

// chosen are the ids that an erasure begins with.
func (r reckoning) chosen(ctx context.Context, f Forget) ([]string, error) {
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
		found, err := texts(r.tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE id = ?1 AND group_name = ?2
			UNION SELECT parent FROM memory_trail WHERE parent = ?1 UNION SELECT child FROM memory_trail WHERE child = ?1
			UNION SELECT id FROM memory_gone WHERE id = ?1 UNION SELECT id FROM memory_recalled WHERE id = ?1`, f.ID, string(r.group)))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%w: %.80q", ErrNotFound, f.ID)
		}
		return found, err
	case f.Session != "":
		return texts(r.tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE session_id = ?1 AND group_name = ?2
			UNION ALL SELECT id FROM memory_gone WHERE session_id = ?1 UNION ALL SELECT ?3 LIMIT ?4`, r.machine.named(f.Session), string(r.group), sessionNode(r.machine.named(f.Session)), MaxForget+1))
	}
	if strings.TrimSpace(f.Match) == "" {
		return nil, fmt.Errorf("%w: the text to match is empty", ErrInvalid)
	}
	// lower knows ASCII only; what is matched as it is written is found anyway.
	return texts(r.tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE (instr(lower(content), lower(?1)) > 0 OR instr(content, ?1) > 0
		OR EXISTS (SELECT 1 FROM json_each(tags) WHERE instr(lower(value), lower(?1)) > 0)) AND group_name = ?2 ORDER BY seq LIMIT ?3`, f.Match, string(r.group), MaxForget+1))
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
func (w *walk) step(ctx context.Context, tx database.Session, kinds []string, versions bool) error {
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
	for n := 1; rows.Next(); n++ {
		if n >= 2*MaxForget { // there may be more
			return fmt.Errorf("%w: too much derives from these: choose fewer", ErrLimit)
		}
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
func (r reckoning) erasure(ctx context.Context, w *walk, f Forget) (Erasure, error) {
	e := Erasure{Entries: []Doomed{}, Restored: []string{}, Sessions: []nacre.SessionID{}}
	ids, err := json.Marshal(w.order)
	if err != nil {
		return e, err
	}
	found, err := r.machine.hits(r.tx.QueryContext(ctx, `SELECT `+columns+`, 0.0 FROM memory_entries e WHERE +e.group_name = ?2 AND e.id IN (SELECT value FROM json_each(?1)) ORDER BY +e.seq`, string(ids), string(r.group)))
	if err != nil {
		return e, err
	}
	for _, h := range found {
		d := w.why[h.ID]
		d.Entry = h.Entry
		e.Entries = append(e.Entries, d)
	}
	restored, err := texts(r.tx.QueryContext(ctx, restoredBy, string(r.group), string(ids)))
	if err != nil {
		return e, err
	}
	e.Restored = append(e.Restored, restored...)
	sessions, err := texts(r.tx.QueryContext(ctx, `SELECT session_id FROM memory_entries WHERE id IN (SELECT value FROM json_each(?1))
		UNION SELECT session_id FROM memory_gone WHERE id IN (SELECT value FROM json_each(?1))
		UNION SELECT session_id FROM memory_recalled WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY 1`, string(ids)))
	for _, id := range sessions {
		e.Sessions = append(e.Sessions, r.machine.ours(id))
	}
	if f.Session != "" && !slices.Contains(e.Sessions, f.Session) {
		e.Sessions = append(e.Sessions, f.Session)
	}
	slices.Sort(e.Restored)
	return e, err
}
