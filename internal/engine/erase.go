package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// scrubPatience is how long an erasure waits for others who use the file.
const scrubPatience = 10 * time.Second

// ErrTraces says that work is gone from the store, and that traces of it stay in
// the file until nobody else uses it. Whoever opens it next tries again.
var ErrTraces = fmt.Errorf("the store of durable work: %w", sqlitefile.ErrLingers)

// Works are all workflows of an executor.
func (c *Client) Works(ctx context.Context, executor string) ([]Status, error) {
	rows, err := dbos.ListWorkflows(c.bounded(ctx), dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false), dbos.WithFilterExecutorIDs(executor))
	if err != nil {
		return nil, fmt.Errorf("work of %s: %w", executor, err)
	}
	list := make([]Status, 0, len(rows))
	for _, row := range rows {
		list = append(list, statusOf(row))
	}
	return list, nil
}

// Erase removes all workflows of executors with what their steps returned, from the
// file's bytes too (M-57), and what earlier erasures have left there. Nobody may be
// running them: the caller sees to that. That the file is to be scrubbed is durable
// before anything is removed. Error: [ErrTraces], where all of it was removed and the
// file still holds traces.
func (c *Client) Erase(ctx context.Context, executors []string) error {
	var ids []string
	for _, executor := range executors {
		works, err := c.Works(ctx, executor)
		if err != nil {
			return err
		}
		for _, work := range works {
			ids = append(ids, work.ID)
		}
	}
	if len(ids) > 0 {
		if err := sqlitefile.MarkScrub(ctx, c.db); err != nil {
			return fmt.Errorf("erase durable work: %w", err)
		}
		if err := dbos.DeleteWorkflows(c.bounded(ctx), ids, dbos.WithDeleteChildren()); err != nil {
			return fmt.Errorf("erase durable work: %w", err)
		}
	}
	return c.scrub(ctx, scrubPatience)
}

// Traces tells whether the file still holds traces of what was erased.
func (c *Client) Traces(ctx context.Context) (bool, error) { return sqlitefile.Marked(ctx, c.db) }

func (c *Client) scrub(ctx context.Context, patience time.Duration) error {
	err := sqlitefile.Scrub(ctx, c.db, patience)
	if errors.Is(err, sqlitefile.ErrLingers) {
		return ErrTraces
	}
	if err != nil {
		return fmt.Errorf("scrub the store of durable work: %w", err)
	}
	return nil
}
