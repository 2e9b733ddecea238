package plugintest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/nacre-dev/nacre"
)

// records are what the host reports.
type records struct {
	mu      sync.Mutex
	all     []nacre.Record
	changed chan struct{} // closed when there is more
}

// Append implements nacre.Recorder.
func (r *records) Append(_ context.Context, rec nacre.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// Commit implements nacre.Recorder.
func (r *records) Commit(ctx context.Context, rec nacre.Record) error { return r.Append(ctx, rec) }

// of are the records on a topic, and what is closed when there are more.
func (r *records) of(topic string) (found []nacre.Record, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.Topic == topic {
			found = append(found, rec)
		}
	}
	return found, r.changed
}

// why is what the last record on a topic says went wrong.
func (r *records) why(topic string) string {
	found, _ := r.of(topic)
	if len(found) == 0 {
		return "no reason was recorded"
	}
	var detail struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(found[len(found)-1].Detail, &detail) != nil {
		return "no reason was recorded"
	}
	return detail.Error
}

// await waits for more records on a topic than there were.
func (r *records) await(ctx context.Context, topic string, more int) bool {
	for {
		found, changed := r.of(topic)
		if len(found) > more {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
