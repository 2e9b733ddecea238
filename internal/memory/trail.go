package memory

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
)

// How one entry derives from another. The trail outlives the entries: through
// one that was deleted, what derives from it is still found.
const (
	trailDerived    = "derived_from"
	trailSupersedes = "supersedes"
	// trailRecalled: the session that wrote the one had been shown the other before.
	trailRecalled = "recalled"
)

// maxRecalled is how many of the entries that a session was shown are kept,
// for each entry that it writes.
const maxRecalled = 2000

// sessionNode stands in the trail for all that a session was told. No entry has
// such an id.
func sessionNode(id nacre.SessionID) string { return "session:" + string(id) }

// derive keeps that child derives from parent.
func derive(ctx context.Context, tx *sql.Tx, child, parent, kind string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO memory_trail(child, parent, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, child, parent, kind)
	return err
}

// trace keeps that an agent's new entry may derive from whatever its session
// was shown or told before.
func (c change) trace(ctx context.Context, id string) error {
	if c.by.Operator {
		return nil
	}
	if err := derive(ctx, c.tx, id, sessionNode(c.by.Session), trailRecalled); err != nil {
		return err
	}
	_, err := c.tx.ExecContext(ctx, `INSERT INTO memory_trail(child, parent, kind)
		SELECT ?, id, 'recalled' FROM memory_recalled WHERE session_id = ? LIMIT ?`, id, string(c.by.Session), maxRecalled)
	return err
}

// Recalled keeps which entries a session was shown.
func (s *Store) Recalled(ctx context.Context, w Writer, ids []string) error {
	ids = s.seen.unseen(w, ids)
	if len(ids) == 0 {
		return nil
	}
	err := s.file.Write(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			_, err := tx.ExecContext(ctx, `INSERT INTO memory_recalled(session_id, id) VALUES (?, ?) ON CONFLICT DO NOTHING`, string(w.Session), id)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.seen.saw(w, ids)
	}
	return err
}

// Heard keeps that a session goes on from an earlier one: what it writes may derive
// from all that the earlier one was told, was shown and wrote.
func (s *Store) Heard(ctx context.Context, w Writer, earlier nacre.SessionID) error {
	return s.file.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO memory_trail(child, parent, kind)
			SELECT ?1, ?2, 'recalled' UNION SELECT ?1, id, 'recalled' FROM memory_entries WHERE session_id = ?3
			UNION SELECT ?1, id, 'recalled' FROM memory_recalled WHERE session_id = ?3`, sessionNode(w.Session), sessionNode(earlier), string(earlier))
		return err
	})
}

// seen is what Recalled has kept.
type seen struct {
	mu  sync.Mutex
	ids map[[2]string]bool
}

// unseen are those that this process has not yet kept for the session.
func (s *seen) unseen(w Writer, ids []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return s.ids[[2]string{string(w.Session), id}] })
}

func (s *seen) saw(w Writer, ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) > maxSeen {
		s.ids = map[[2]string]bool{}
	}
	for _, id := range ids {
		s.ids[[2]string{string(w.Session), id}] = true
	}
}

// maxSeen bounds what a process remembers; what it forgot is kept once more.
const maxSeen = 100_000
