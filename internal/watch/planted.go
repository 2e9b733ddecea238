package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/plantings"
)

// LookForPlanted looks into the project once nothing of the session runs there any
// more, however it ended, and records what it finds.
func (w *Watch) LookForPlanted(ctx context.Context, project string, since time.Time, before planted.Top, ended error) (plantings.Found, error) {
	if project == "" {
		return plantings.Found{}, ended
	}
	ctx = context.WithoutCancel(ctx)
	found, report := plantings.AtEnd(ctx, project, since, before)
	if found.IsZero() {
		return found, ended
	}
	err := found.Save(w.session.Dir(), report)
	for _, name := range []string{".claude", ".codex", ".cursor", ".mcp.json", ".nacre", ".git"} {
		if slices.ContainsFunc(report.Findings, func(f planted.Finding) bool { return f.Path == name || strings.HasPrefix(f.Path, name+"/") }) {
			for _, a := range w.wires.Planted(name) {
				w.noteAlarm(a, "notified")
			}
		}
	}
	return found, errors.Join(ended, err, w.session.Recorder.Append(ctx, found.Record(w.session.ID())))
}
