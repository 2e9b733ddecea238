package disk_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/disk"
)

// P-03: each file is written once, by writers that have enough of them.
func TestFilesAreSpreadOverWriters(t *testing.T) {
	for _, count := range []int{0, 1, 1999, 2000, 10_001} {
		names := make([]string, count)
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		var mu sync.Mutex
		var written []string
		writers := 0
		err := disk.Spread(t.Context(), names, func(_ context.Context, part []string) error {
			mu.Lock()
			defer mu.Unlock()
			written = append(written, part...)
			writers++
			return nil
		})
		slices.SortFunc(written, func(a, b string) int { x, _ := strconv.Atoi(a); y, _ := strconv.Atoi(b); return x - y })
		if err != nil || !slices.Equal(written, names) || writers > max(1, count/1000) {
			t.Errorf("%d files: %d written by %d writers, %v", count, len(written), writers, err)
		}
	}
}

// P-03: an error of one ends the others, and is what is returned; so is an end from
// outside.
func TestTheFirstErrorEndsAllWriters(t *testing.T) {
	wrong, names := errors.New("no room"), make([]string, 10_000)
	err := disk.Spread(t.Context(), names, func(ctx context.Context, _ []string) error { return wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("have %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	err = disk.Spread(ctx, names, func(inner context.Context, _ []string) error {
		stop()
		<-inner.Done()
		return inner.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}
