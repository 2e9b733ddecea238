package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// queuePoll is how often a run looks whether it is its turn.
const queuePoll = 20 * time.Millisecond

// queue waits until no other run of this installation merges into a project,
// so that runs side by side land one after the other and none starves while
// the branch moves under it (S-19). Ending the process gives the place up.
func (r *Runtime) queue(ctx context.Context, project string) (leave func(), err error) {
	leave, err = r.takeTurn(ctx, "merging", project)
	if err != nil {
		err = fmt.Errorf("wait to merge into %s: %w", project, err)
	}
	return leave, err
}

// takeTurn waits until no other process or goroutine of this installation has
// its turn at what is named. Ending the process gives the turn up.
func (r *Runtime) takeTurn(ctx context.Context, at, what string) (leave func(), err error) {
	name := sha256.Sum256([]byte(what))
	dir := filepath.Join(r.registry.Paths().State, at)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(name[:16])), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(queuePoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() /* closing is what gives the turn up */ }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
}
