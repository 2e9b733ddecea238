package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Queue waits until no other run of this installation merges into a project (S-19). So runs side by
// side land one after the other, and none starves while the branch moves under it. Ending the
// process gives the place up.
func (r *Registry) Queue(ctx context.Context, project string) (leave func(), err error) {
	leave, err = r.TakeTurn(ctx, "merging", project)
	if err != nil {
		err = fmt.Errorf("wait to merge into %s: %w", project, err)
	}
	return leave, err
}

// TakeTurn waits until no other process or goroutine of this installation has
// its turn at what is named. Ending the process gives the turn up.
func (r *Registry) TakeTurn(ctx context.Context, at, what string) (leave func(), err error) {
	name := sha256.Sum256([]byte(what))
	dir := filepath.Join(r.paths.State, at)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := disk.TakeLock(ctx, filepath.Join(dir, hex.EncodeToString(name[:16])))
	if errors.Is(err, disk.ErrLocked) {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Release() /* nobody waits for more than the process's end */ }, nil
}
