package overlay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Surveyed is what a look at every inode below a folder gave.
type Surveyed struct {
	// Digest changes whenever an inode does: its kind, mode, size, number and times,
	// of which that of its change cannot be set.
	Digest string
	// Bytes is the room that its files take.
	Bytes int64
}

// Survey looks at every inode below dir, several folders at a time, and at what is
// in none of them.
func Survey(ctx context.Context, dir string) (Surveyed, error) {
	var s Surveyed
	sums := map[string][]byte{}
	var mu sync.Mutex
	err := eachFolder(ctx, dir, func(name string, fd int, entries []string) error {
		sum, bytes, err := sumFolder(fd, entries)
		mu.Lock()
		defer mu.Unlock()
		sums[name] = sum
		s.Bytes += bytes
		return err
	})
	if err != nil {
		return Surveyed{}, err
	}
	all := sha256.New()
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, _ = all.Write(append([]byte(name), 0)) // a hash takes everything
		_, _ = all.Write(sums[name])
	}
	s.Digest = hex.EncodeToString(all.Sum(nil))
	return s, nil
}

// sumFolder digests the inodes of a folder, its own with them. The names are sorted.
func sumFolder(fd int, names []string) ([]byte, int64, error) {
	sum := sha256.New()
	var bytes int64
	for _, name := range append([]string{""}, names...) {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, cmp.Or(name, "."), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, 0, err
		}
		record := append([]byte(name), 0)
		for _, n := range []uint64{
			uint64(st.Mode), st.Ino, uint64(st.Nlink), uint64(st.Uid), uint64(st.Gid), uint64(st.Size), uint64(st.Rdev), //nolint:gosec,unconvert // digested, not counted with
			uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano()), //nolint:gosec // digested, not counted with
		} {
			record = binary.BigEndian.AppendUint64(record, n)
		}
		_, _ = sum.Write(record) // a hash takes everything
		bytes += st.Blocks * 512
	}
	return sum.Sum(nil), bytes, nil
}

// Backdate gives every file below dir the same time of change.
func Backdate(ctx context.Context, dir string, at time.Time) error {
	times := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
	return eachFolder(ctx, dir, func(_ string, fd int, names []string) error {
		for _, name := range names {
			if err := unix.UtimesNanoAt(fd, name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachFolder calls look for each folder below dir, and dir itself as ".", with its
// descriptor and its sorted names: several at once, in no order.
func eachFolder(ctx context.Context, dir string, look func(name string, fd int, entries []string) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	room := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	var folder func(name string)
	folder = func(name string) {
		below, err := lookAt(ctx, dir, name, look)
		if err != nil {
			stop(fmt.Errorf("%s: %w", filepath.Join(dir, name), err))
			return
		}
		for _, child := range below {
			select {
			case room <- struct{}{}:
				running.Go(func() {
					defer func() { <-room }()
					folder(child)
				})
			default: // all are busy
				folder(child)
			}
		}
	}
	folder(".")
	running.Wait()
	return context.Cause(ctx)
}

// lookAt opens one folder, and gives the folders in it.
func lookAt(ctx context.Context, dir, name string, look func(name string, fd int, entries []string) error) (below []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
		if e.IsDir() {
			below = append(below, path.Join(name, e.Name()))
		}
	}
	slices.Sort(names)
	if err == nil {
		err = look(name, int(f.Fd()), names)
	}
	return below, errors.Join(err, f.Close())
}
