package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// ErrTraces says that work is gone from the store, and that traces of it stay in
// the file until nobody else uses it.
var ErrTraces = errors.New("another process uses the store of durable work, which keeps traces until it ends")

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
// file's bytes too (M-57). Nobody may be running them: the caller sees to that.
// Error: [ErrTraces], where all of it was removed and the file still holds traces.
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
	if len(ids) == 0 {
		return nil
	}
	if err := dbos.DeleteWorkflows(c.bounded(ctx), ids, dbos.WithDeleteChildren()); err != nil {
		return fmt.Errorf("erase durable work: %w", err)
	}
	return c.scrub(ctx)
}

// scrub rewrites the file without what was deleted, and empties its log.
func (c *Client) scrub(ctx context.Context) error {
	if _, err := c.db.ExecContext(ctx, `VACUUM`); err != nil {
		return fmt.Errorf("%w (%w)", ErrTraces, err)
	}
	var busy, log, done int
	if err := c.db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &done); err != nil || busy != 0 {
		return errors.Join(ErrTraces, err)
	}
	return nil
}
