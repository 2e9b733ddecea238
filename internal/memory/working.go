package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
)

// Working is the memory of a sub-agent for its own work (M-56). What it stores is marked with ID
// and is found for TTL, by itself and by whoever asks for ID, and by no other session. Its zero
// value is none: what is stored is the group's.
type Working struct {
	// ID is of at most 40 characters; the host makes it.
	ID  string
	TTL time.Duration
}

// workingTag begins the tag that marks an entry of a working memory. Only the host sets it.
const workingTag = "working:"

// Tag is what marks the entries of a working memory, for a [Query].
func (w Working) Tag() string { return workingTag + w.ID }

// is tells of a working memory from none.
func (w Working) is() bool { return w.ID != "" }

// mark makes an entry one of the working memory.
func (w Working) mark(e *Entry, now time.Time) {
	if !w.is() {
		return
	}
	e.Tags = append(e.Tags, w.Tag())
	if until := stamp(now.Add(w.TTL)); e.ExpiresAt == "" || e.ExpiresAt > until {
		e.ExpiresAt = until
	}
}

// sees tells whether a session that works with w may find an entry with these tags.
func (w Working) sees(tags []string) bool {
	return !slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, workingTag) && tag != w.Tag() })
}

// where is [Working.sees] for the file, with its argument.
func (w Working) where() (condition, argument string) {
	return `(instr(e.tags, '"` + workingTag + `') = 0 OR instr(e.tags, ?) > 0)`, `"` + w.Tag() + `"`
}

// checkTags refuses to an agent the tags that the host sets.
func checkTags(w Writer, tags []string) error {
	if at := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, workingTag) }); at >= 0 && !w.Operator {
		return fmt.Errorf("%w: tag %.60q: what begins with %s is the host's own", ErrInvalid, tags[at], workingTag)
	}
	return nil
}

// mayChangeOf refuses to a session what it does not see, and to a sub-agent all that is not
// of its own working memory.
func (w Working) mayChangeOf(ctx context.Context, tx database.Session, by Writer, id string) error {
	if by.Operator {
		return nil
	}
	raw, err := scanned[string](tx.QueryRowContext(ctx, `SELECT tags FROM memory_entries WHERE id = ?`, id))
	if err != nil {
		return err
	}
	var tags []string
	switch err := json.Unmarshal([]byte(raw), &tags); {
	case err != nil:
		return err
	case !w.sees(tags):
		return fmt.Errorf("%w: %.80q", ErrNotFound, id)
	case w.is() && !slices.Contains(tags, w.Tag()):
		return fmt.Errorf("%w: %.80q is not of this sub-agent's working memory", ErrTrusted, id)
	}
	return nil
}

// purgeWorking removes the entries of working memories whose time is over.
func purgeWorking(ctx context.Context, s *Store) error {
	return s.at.Write(ctx, func(tx database.Session) error {
		ids, err := texts(tx.QueryContext(ctx, `SELECT id FROM memory_entries WHERE expires_at <= ? AND instr(tags, '"`+workingTag+`') > 0 AND group_name = ?`, stamp(s.now()), string(s.group)))
		for _, id := range ids {
			_, failed := tx.ExecContext(ctx, `UPDATE memory_entries SET superseded_by = NULL WHERE superseded_by = ?`, id)
			_, gone := tx.ExecContext(ctx, `DELETE FROM memory_entries WHERE id = ?`, id)
			err = errors.Join(err, failed, gone)
		}
		return err
	})
}
