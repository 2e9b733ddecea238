package seal

import (
	"context"
	"encoding/json"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
)

// recordPurge tells how many superseded entries were too old when the memory was opened (D-40).
func (t *toolset) recordPurge(ctx context.Context) error {
	if t.Memory.Purged() == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int{"count": t.Memory.Purged()})
	if err != nil {
		return err
	}
	return t.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindMemory, Source: installation.SourceCore, Outcome: "superseded entries purged", Detail: detail})
}
