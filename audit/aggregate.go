package audit

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/flood"
)

// Aggregator is a recorder that keeps floods short (D-16). Of equal rejections within a minute, the
// first 20 are recorded one by one. The others are one record with their count, in detail.repeated,
// and the times of the first and the last. Everything but rejections and blocked connections passes
// through as it is. Equal means: all members but time, correlation and detail.
type Aggregator struct{ floods *flood.Recorder }

// NewAggregator passes records on to next. Close it before next.
func NewAggregator(next nacre.Recorder, now func() time.Time) (*Aggregator, error) {
	if next == nil || now == nil {
		return nil, errors.New("aggregator: give a recorder and a clock")
	}
	return &Aggregator{flood.New(next, now, timeForm)}, nil
}

// Append implements [nacre.Recorder].
func (a *Aggregator) Append(ctx context.Context, r nacre.Record) error {
	return a.floods.Append(ctx, r)
}

// Commit implements [nacre.Recorder]. A record that is held is durable with the
// count that follows; nobody acts on a rejection.
func (a *Aggregator) Commit(ctx context.Context, r nacre.Record) error {
	return a.floods.Commit(ctx, r)
}

// Close records the counts that are held. It may be called again when it
// failed. The recorder it passes on to is not closed.
func (a *Aggregator) Close(ctx context.Context) error { return a.floods.Close(ctx) }
