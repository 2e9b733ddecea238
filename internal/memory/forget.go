package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Limits of one erasure.
const (
	// MaxForget is how many entries one erasure takes: an import, and as many that derive from it.
	MaxForget = 2 * MaxImport
	// scrubPatience is how long an erasure waits for others who read the file.
	scrubPatience = 10 * time.Second
)

// Forget says what is to be erased: exactly one of ID, Session and Match.
type Forget struct {
	// ID is one entry, with its earlier and later versions.
	ID string
	// Session is all that a session wrote. What it replaced is current again.
	Session nacre.SessionID
	// Match is every entry, superseded ones too, whose text or tags hold these characters.
	Match string
	// Recalled also takes what sessions wrote after they were shown one of these.
	Recalled bool
}

// Doomed is an entry that an erasure takes, and why.
type Doomed struct {
	Entry
	// Why is "chosen", or the way it derives: derived_from, supersedes, superseded
	// (an earlier version) or recalled; Of is from which entry.
	Why string `json:"why"`
	Of  string `json:"of,omitempty"`
}

// Erasure is what goes, and what does not.
type Erasure struct {
	Entries []Doomed `json:"entries"`
	// Restored are entries that become current again, since what replaced them goes.
	Restored []string `json:"restored"`
	// Recalled is how many further entries were written by sessions that had been
	// shown one of these: [Forget.Recalled] takes them too.
	Recalled int `json:"recalled"`
	// Sessions are those that wrote one of these or were shown it: what else is kept of
	// them may hold its words.
	Sessions []nacre.SessionID `json:"sessions"`
}

// ErrLingers says that entries are gone from the memory, and traces of them may
// be left in the file until nobody else uses it. Whoever opens it next removes them.
var ErrLingers = fmt.Errorf("erased, but not yet from the bytes of the memory: %w", sqlitefile.ErrLingers)

// Trusted are those that the operator vouches for.
func (e Erasure) Trusted() []string {
	var ids []string
	for _, d := range e.Entries {
		if d.Trust == nacre.Trusted {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Doom tells what an erasure would take. Nothing changes.
// Errors: [ErrNotFound] for an id that neither is nor was an entry, [ErrInvalid], [ErrLimit].
func (s *Store) Doom(ctx context.Context, f Forget) (e Erasure, err error) {
	err = s.at.View(ctx, func(tx database.Session) error {
		e, err = reckoning{s.group, s.machine, tx}.doom(ctx, f)
		return err
	})
	return e, s.at.Classified(err)
}

// Forget erases what [Store.Doom] told, if it still is the same, and every trace
// of it in the file. It is the operator's alone.
// Errors: those of Doom, [ErrInvalid] where something was added meanwhile, and [ErrLingers].
func (s *Store) Forget(ctx context.Context, f Forget, told Erasure) error {
	err := s.at.Write(ctx, func(tx database.Session) error {
		now, restored, err := reckoning{s.group, s.machine, tx}.doomed(ctx, f)
		if err != nil {
			return err
		}
		if !slices.Equal(now, idsOf(told)) {
			return fmt.Errorf("%w: what would be erased has changed meanwhile: look again", ErrInvalid)
		}
		return s.erase(ctx, tx, now, restored)
	})
	if err != nil {
		return err
	}
	return s.scrub(ctx, scrubPatience)
}

func idsOf(e Erasure) []string {
	ids := make([]string, 0, len(e.Entries))
	for _, d := range e.Entries {
		ids = append(ids, d.ID)
	}
	return ids
}

// erase deletes rows, and leaves a note that their bytes are to be scrubbed.
func (s base) erase(ctx context.Context, tx database.Session, ids, restored []string) error {
	gone, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	back, err := json.Marshal(restored)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`UPDATE memory_entries SET superseded_by = NULL WHERE superseded_by IN (SELECT value FROM json_each(?1)) AND id IN (SELECT value FROM json_each(?2))`,
		`UPDATE memory_entries SET superseded_by = NULL WHERE superseded_by IS NOT NULL AND id IN (SELECT value FROM json_each(?1))`, // so that they may go in any order
		`INSERT INTO memory_scrub VALUES (1) ON CONFLICT DO NOTHING`,
	} {
		args := []any{string(gone), string(back)}[:strings.Count(statement, "json_each")]
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	return s.remove(ctx, tx, len(ids), string(gone))
}

// rebuiltFor is a number of entries that stay. For so many, the full-text index is as soon built
// anew as it is rid of one that goes, since each word of that is looked for.
const rebuiltFor = 200

// remove deletes n rows, and their words from the full-text index of a file.
func (s base) remove(ctx context.Context, tx database.Session, n int, ids string) error {
	const rows = `DELETE FROM memory_entries WHERE id IN (SELECT value FROM json_each(?1))`
	if s.file == nil {
		_, err := tx.ExecContext(ctx, rows, ids)
		return err
	}
	var all int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_entries`).Scan(&all); err != nil {
		return err
	}
	statements := []string{rows}
	if n > 1 && (all-n)/rebuiltFor < n {
		statements = []string{`DROP TRIGGER memory_fts_delete`, rows, `INSERT INTO memory_fts(memory_fts) VALUES ('rebuild')`, ftsDelete}
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement, ids); err != nil {
			return err
		}
	}
	return nil
}

// scrub removes what deleted rows left in free pages, in the full-text index
// and in the write-ahead log. The mark goes last, and only if no entry has gone
// meanwhile: whoever is killed before has left it.
func (s base) scrub(ctx context.Context, patience time.Duration) error {
	until := time.Now().Add(patience) // the store's own clock may stand still
	once := s.scrubOnce
	if s.file == nil {
		once = s.writeAnew
	}
	for {
		done, err := once(ctx, max(time.Until(until), 0))
		switch {
		case errors.Is(err, sqlitefile.ErrLingers) || sqlitefile.IsBusy(err):
			return ErrLingers
		case done || err != nil:
			return s.at.Classified(err)
		case time.Now().After(until):
			return ErrLingers
		}
	}
}

func (s base) scrubOnce(ctx context.Context, patience time.Duration) (done bool, err error) {
	var change int64
	if err := s.at.Reader().QueryRowContext(ctx, lastChange).Scan(&change); err != nil {
		return false, err
	}
	if _, err := s.at.Reader().ExecContext(ctx, `INSERT INTO memory_fts(memory_fts) VALUES ('optimize')`); err != nil {
		return false, err
	}
	if err := sqlitefile.Wipe(ctx, s.file.DB(), patience); err != nil {
		return false, err
	}
	if _, err := s.at.Reader().ExecContext(ctx, `DELETE FROM memory_scrub WHERE (`+lastChange+`) = ?`, change); err != nil {
		return false, err
	}
	left, err := s.traces(ctx)
	return !left, err
}

// Traces tells whether the file may still hold traces of what was erased.
func (s *Store) Traces(ctx context.Context) (bool, error) { return s.traces(ctx) }

func (s base) traces(ctx context.Context) (bool, error) {
	var pending int
	err := s.at.Reader().QueryRowContext(ctx, `SELECT count(*) FROM memory_scrub`).Scan(&pending)
	return pending > 0, s.at.Classified(err)
}

// scrubLeft finishes an erasure that was interrupted. Others who read the file
// are no reason not to open it.
func (s base) scrubLeft(ctx context.Context) error {
	left, err := s.traces(ctx)
	if err != nil || !left {
		return err
	}
	if err := s.scrub(ctx, 0); !errors.Is(err, ErrLingers) {
		return err
	}
	return nil
}
