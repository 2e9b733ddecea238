package serve

import (
	"context"
	"maps"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/mailbox"
	"github.com/nacre-dev/nacre/internal/ticking"
)

// Unfinished are the sessions of all messages and ticks that were taken and not dealt with:
// a nacre serve begins each of them, carries it on, or gives it up.
func Unfinished(ctx context.Context, inst *installation.Installation) (map[nacre.SessionID]bool, error) {
	messages, err := mailbox.Unfinished(ctx, inst)
	if err != nil {
		return nil, err
	}
	ticks, err := ticking.Unfinished(ctx, inst)
	maps.Copy(messages, ticks)
	return messages, err
}
