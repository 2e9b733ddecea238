package assembly

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

// words is a recorder of what agents say: the names they choose, a call's topic
// and correlation, are recorded without secrets, as all else of a call is (D-15).
type words struct {
	nacre.Recorder
	redact *redact.Engine
}

// Append implements nacre.Recorder.
func (w words) Append(ctx context.Context, r nacre.Record) error {
	return w.Recorder.Append(ctx, w.clean(r))
}

// Commit implements nacre.Recorder.
func (w words) Commit(ctx context.Context, r nacre.Record) error {
	return w.Recorder.Commit(ctx, w.clean(r))
}

func (w words) clean(r nacre.Record) nacre.Record {
	r.Topic, _ = w.redact.String(r.Topic)
	correlation, _ := w.redact.String(string(r.Correlation))
	r.Correlation = nacre.Correlation(correlation)
	return r
}
