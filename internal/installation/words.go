package installation

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

// Words is a recorder of what agents say: the names they choose, a call's topic
// and correlation, are recorded without secrets, as all else of a call is (D-15).
type Words struct {
	nacre.Recorder
	Redact *redact.Engine
}

// Append implements nacre.Recorder.
func (w Words) Append(ctx context.Context, r nacre.Record) error {
	return w.Recorder.Append(ctx, w.clean(r))
}

// Commit implements nacre.Recorder.
func (w Words) Commit(ctx context.Context, r nacre.Record) error {
	return w.Recorder.Commit(ctx, w.clean(r))
}

func (w Words) clean(r nacre.Record) nacre.Record {
	r.Topic, _ = w.Redact.String(r.Topic)
	correlation, _ := w.Redact.String(string(r.Correlation))
	r.Correlation = nacre.Correlation(correlation)
	return r
}

// Sanitize takes secrets out of what the kernel answers with, and leaves the personal
// data that it let its session see.
func Sanitize(document []byte) ([]byte, []string) {
	seen := redact.Naming{Name: func(_, value string) (string, bool) { return value, true }}
	return orNothing(seen.JSON(document))
}

// RedactJSON takes secrets and personal data out of a document. What is no document goes nowhere.
func RedactJSON(inst *Installation, document []byte) ([]byte, []string) {
	return orNothing(inst.Redact.JSON(document))
}

func orNothing(clean []byte, paths []string, err error) ([]byte, []string) {
	if err != nil {
		return []byte("null"), []string{"all of it: " + err.Error()}
	}
	return clean, paths
}
