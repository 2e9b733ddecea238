package revocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/nacre-dev/nacre/internal/disk"
)

// ErrLocked is a file that another process held for too long.
var ErrLocked = errors.New("another process is writing: try again")

// privateDir makes dir for its owner alone, or refuses one that is not.
func privateDir(dir string) error {
	if dir == "" {
		return errors.New("no folder for revocations and token keys is named")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return private(dir, info)
}

func private(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be used by others (mode %04o): run chmod go= %s", path, info.Mode().Perm(), path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to you (%d): use a folder of your own", path, stat.Uid, os.Geteuid())
	}
	return nil
}

// takeLock waits until it holds the lock, at most until ctx ends.
func takeLock(ctx context.Context, path string) (*disk.Lock, error) {
	lock, err := disk.TakeLock(ctx, path)
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	return lock, err
}

// openPrivate refuses a file that others may use.
func openPrivate(path string) (*os.File, error) {
	f, err := disk.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = private(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readPrivate reads a small file of the user's own.
func readPrivate(path string, limit int64) ([]byte, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, limit)
	return data, errors.Join(err, f.Close())
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), limit)
	}
	return data, err
}
