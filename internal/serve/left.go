package serve

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/scheduling"
)

// Unfinished are the sessions of all messages and ticks that were taken and not dealt with:
// a nacre serve begins each of them, carries it on, or gives it up.
func Unfinished(ctx context.Context, inst *installation.Installation) (map[nacre.SessionID]bool, error) {
	messages, err := keptMessages(ctx, inst)
	if err != nil {
		return nil, err
	}
	ticks, err := openTicks(ctx, inst)
	maps.Copy(messages, ticks)
	return messages, err
}

func keptMessages(ctx context.Context, inst *installation.Installation) (map[nacre.SessionID]bool, error) {
	if store := inst.Registry.Store(); store != nil {
		return inbox.SharedSessions(ctx, store)
	}
	return inbox.Sessions(inst.Registry.Paths().Messages())
}

func openTicks(ctx context.Context, inst *installation.Installation) (sessions map[nacre.SessionID]bool, err error) {
	if inst.Registry.Store() == nil {
		_, err := os.Stat(filepath.Join(inst.Registry.Paths().State, schedule.FileName))
		if errors.Is(err, fs.ErrNotExist) {
			return map[nacre.SessionID]bool{}, nil // there has been no schedule, and looking makes no file
		}
	}
	store, err := scheduling.Schedules(ctx, inst)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.OpenSessions(ctx)
}
