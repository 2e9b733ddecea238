package assembly

import (
	"context"

	"github.com/nacre-dev/nacre/internal/posture"
)

// NewPinner is the pinner of a session that works on a folder.
func NewPinner(workspace, dir string) *pinner {
	return &pinner{workspace: workspace, dir: dir, kept: map[string]int64{}}
}

// MaxPinned is how much its copies hold at most.
const MaxPinned = maxPinned

// Toolchains finds the language tools outside of the system folders, and
// remembers what they answered in a file.
func Toolchains(ctx context.Context, getenv func(string) string, file string) []posture.Toolchain {
	return toolchains(ctx, openMemo(getenv, file))
}
