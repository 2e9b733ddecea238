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

// NoteLimit records and tells that a sandbox was ended for a limit. The
// recorder itself stops the session where it fails.
func (s *Session) NoteLimit(ctx context.Context, why string) {
	if why == "" {
		return
	}
	_ = s.Recorder.Commit(context.WithoutCancel(ctx), nacre.Record{Kind: installation.KindLimit, Source: "core", Outcome: "ended", Reason: why})
	s.Warn(nacre.Step{Kind: nacre.StepResult, Name: "limit", Text: "the sandbox was ended: " + why, IsError: true})
}
