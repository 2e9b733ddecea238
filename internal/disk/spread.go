package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
)

// Many files are written by some writers at once, each of which gets enough of them.
const (
	maxWriters = 8
	perWriter  = 1000
)

// Spread calls write with parts of a sorted list of files, each with what is side by
// side in it, several at once where the list is long. The first error ends the others,
// and is returned when all have ended.
func Spread(ctx context.Context, names []string, write func(ctx context.Context, part []string) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	writers := max(1, min(maxWriters, runtime.GOMAXPROCS(0), len(names)/perWriter))
	var running sync.WaitGroup
	for part := range slices.Chunk(names, max(1, (len(names)+writers-1)/writers)) {
		running.Go(func() {
			if err := write(ctx, part); err != nil {
				stop(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// Empty makes the directory, or checks that it has nothing in it.
func Empty(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("directory %s is not empty", dir)
	}
	return nil
}
