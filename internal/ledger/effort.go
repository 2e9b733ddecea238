package ledger

import (
	"context"
	"database/sql"
)

const (
	// maxEfforts is how many runs of a project are looked at, the latest.
	maxEfforts = 500
	// maxEffortTask is the longest task that is given with an effort, in bytes.
	maxEffortTask = 64 << 10
)

// Effort is what a run that has ended really took.
type Effort struct {
	// Task is what was pinned, as Start had it; empty where it was forgotten or is very long.
	Task string
	// Failed says that its work did not hold, or was refused.
	Failed bool
	// Cost is in millionths of a dollar.
	Cost int64
	// Tries is how often its agent worked.
	Tries int
}

// Efforts are those of the latest runs in a project that a provider's model was asked in, the
// latest first.
func Efforts(ctx context.Context, l *Ledger, project, provider, model string) ([]Effort, error) {
	rows, err := l.at.Reader().QueryContext(ctx, `SELECT CASE WHEN length(task) <= ? THEN task ELSE '' END, status IN ('failed', 'rejected') OR verdict = 'failed', cost, tries
		FROM runs JOIN specs USING (spec_sha) WHERE project = ? AND tries > 0 AND provider = ? AND model = ? AND tokens_in + tokens_out > 0 ORDER BY seq DESC LIMIT ?`,
		maxEffortTask, project, provider, model, maxEfforts)
	if err != nil {
		return nil, l.at.Classified(err)
	}
	list, err := efforts(rows)
	return list, l.at.Classified(err)
}

func efforts(rows *sql.Rows) ([]Effort, error) {
	defer func() { _ = rows.Close() }() // rows.Err says it
	var list []Effort
	for rows.Next() {
		var e Effort
		if err := rows.Scan(&e.Task, &e.Failed, &e.Cost, &e.Tries); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
