package memory

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
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

// sessionNode stands in the trail for all that a session, as it is called in the tables, was
// told. No entry has such an id.
func sessionNode(session string) string { return "session:" + session }

// derive keeps that child derives from parent.
func derive(ctx context.Context, tx database.Session, child, parent, kind string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO memory_trail(child, parent, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, child, parent, kind)
	return err
}

// trace keeps that an agent's new entry may derive from whatever its session
// was shown or told before.
func (c change) trace(ctx context.Context, id string) error {
	if c.by.Operator {
		return nil
	}
	if err := derive(ctx, c.tx, id, sessionNode(c.session), trailRecalled); err != nil {
		return err
	}
	_, err := c.tx.ExecContext(ctx, `INSERT INTO memory_trail(child, parent, kind)
		SELECT ?, id, 'recalled' FROM memory_recalled WHERE session_id = ? LIMIT ?`, id, c.session, maxRecalled)
	return err
}

// Recalled keeps which entries a session was shown.
func (s *Store) Recalled(ctx context.Context, w Writer, ids []string) error {
	ids = s.seen.unseen(w, ids)
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	err = s.at.Write(ctx, func(tx database.Session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory_recalled(session_id, id) SELECT ?2, value FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
			string(list), s.machine.named(w.Session))
		return err
	})
	if err == nil {
		s.seen.saw(w, ids)
	}
	return err
}

// Heard keeps that a session goes on from an earlier one: what it writes may derive
// from all that the earlier one was told, was shown and wrote.
func (s *Store) Heard(ctx context.Context, w Writer, earlier nacre.SessionID) error {
	session, before := s.machine.named(w.Session), s.machine.named(earlier)
	return s.at.Write(ctx, func(tx database.Session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory_trail(child, parent, kind)
			SELECT ?1, ?2, 'recalled' UNION SELECT ?1, id, 'recalled' FROM memory_entries WHERE session_id = ?3
			UNION SELECT ?1, id, 'recalled' FROM memory_recalled WHERE session_id = ?3 ON CONFLICT DO NOTHING`, sessionNode(session), sessionNode(before), before)
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
