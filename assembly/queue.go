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
	name := sha256.Sum256([]byte(project))
	dir := filepath.Join(r.registry.Paths().State, "merging")
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
			return func() { _ = f.Close() /* closing is what gives the place up */ }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("wait to merge into %s: %w", project, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
}
