package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// scrubPatience is how long [Ledger.Forget] waits for others who use the file.
const scrubPatience = 10 * time.Second

// ErrTraces says that texts are gone from the ledger, and that traces of them stay in
// the file until nobody else uses it. Whoever opens it next tries again.
var ErrTraces = fmt.Errorf("the ledger: %w", sqlitefile.ErrLingers)

// What a row's texts are found by. A text that another run needs, of another session
// or running still, is not one session's to forget.
const (
	ofSessions = `session IN (SELECT value FROM json_each(?1)) AND session != '' AND status != 'running'`
	notOthers  = ` NOT IN (SELECT %s FROM runs WHERE NOT (` + ofSessions + `))`
	theirs     = ` IN (SELECT %s FROM runs WHERE ` + ofSessions + `)`
)

// column is theirs and nobody else's.
func alone(column string) string {
	return column + fmt.Sprintf(theirs, column) + " AND " + column + fmt.Sprintf(notOthers, column)
}

// Of are all runs of sessions, the oldest first.
func (l *Ledger) Of(ctx context.Context, sessions []string) ([]Run, error) {
	list, err := l.machine.list(sessions)
	if err != nil {
		return nil, err
	}
	return query(ctx, l, l.at.Reader(), `session IN (SELECT value FROM json_each(?1)) AND session != '' ORDER BY seq`, list)
}

// Written are the runs of sessions that have ended and of which [Ledger.Forget] would
// take texts, the oldest first.
func (l *Ledger) Written(ctx context.Context, sessions []string) ([]Run, error) {
	list, err := l.machine.list(sessions)
	if err != nil {
		return nil, err
	}
	return query(ctx, l, l.at.Reader(), ofSessions+` AND (summary != '' OR seq IN (SELECT run FROM changes WHERE reason != '')
		OR spec_sha IN (SELECT spec_sha FROM specs WHERE task != '' AND `+alone("spec_sha")+`)
		OR prompt_sha IN (SELECT prompt_sha FROM prompts WHERE prompt != '' AND `+alone("prompt_sha")+`)) ORDER BY seq`, list)
}

// AuditorsOf are the sessions in which runs of sessions were audited: by runs in a role,
// on behalf of theirs.
func (l *Ledger) AuditorsOf(ctx context.Context, role string, sessions []string) ([]string, error) {
	list, err := l.machine.list(sessions)
	if err != nil {
		return nil, err
	}
	found, err := query(ctx, l, l.at.Reader(), `role = ?2 AND session != '' AND parent_seq IN
		(SELECT seq FROM runs WHERE session IN (SELECT value FROM json_each(?1)) AND session != '') ORDER BY seq`, list, role)
	names := make([]string, 0, len(found))
	for _, run := range found {
		names = append(names, run.Session)
	}
	return names, err
}

// Forget takes the texts out of the rows of sessions that have ended, and out of the file's bytes
// (M-57). Texts are what was asked, unless another run was asked the same, what the agent reported,
// and the reasons of changes. All else of a row stays, with the digests of its texts and the
// records that it stands on. Error: [ErrTraces], where the file still holds traces.
func (l *Ledger) Forget(ctx context.Context, sessions []string) error {
	list, err := l.machine.list(sessions)
	if err != nil {
		return err
	}
	err = l.at.Write(ctx, func(tx database.Session) error {
		if l.file != nil {
			if err := sqlitefile.MarkScrub(ctx, tx); err != nil {
				return err
			}
		}
		for _, statement := range []string{
			`UPDATE specs SET task = '' WHERE ` + alone("spec_sha"),
			`UPDATE prompts SET prompt = '' WHERE ` + alone("prompt_sha"),
			`UPDATE changes SET reason = '' WHERE run IN (SELECT seq FROM runs WHERE ` + ofSessions + `)`,
			`UPDATE runs SET summary = '' WHERE ` + ofSessions,
		} {
			if _, err := tx.ExecContext(ctx, statement, list); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.scrub(ctx, scrubPatience)
}

// Traces tells whether the file still holds traces of what was forgotten.
func (l *Ledger) Traces(ctx context.Context) (bool, error) {
	if l.file == nil {
		return false, nil
	}
	left, err := sqlitefile.Marked(ctx, l.file.DB())
	return left, l.at.Classified(err)
}

// scrub takes what was forgotten out of a file's bytes. A server reuses those of a store as
// it cleans up (VACUUM).
func (l *Ledger) scrub(ctx context.Context, patience time.Duration) error {
	if l.file == nil {
		return nil
	}
	err := sqlitefile.Scrub(ctx, l.file.DB(), patience)
	if errors.Is(err, sqlitefile.ErrLingers) {
		return ErrTraces
	}
	return l.at.Classified(err)
}
