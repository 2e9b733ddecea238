package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// A lock that somebody else holds is tried again after firstPoll, then less and
// less often.
const (
	firstPoll = time.Millisecond
	lastPoll  = 16 * time.Millisecond
)

// ErrLocked is a lock that somebody else held for too long.
var ErrLocked = errors.New("held by another process")

// Lock is held until it is released, or its process has ended, however it ended.
type Lock struct{ file *os.File }

// TakeLock waits until nobody else, in this process or another, holds the lock, and
// fails with [ErrLocked] and the context's cause once ctx ends. Its file is made
// where there is none.
func TakeLock(ctx context.Context, path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &Lock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s: %w: %w", path, ErrLocked, context.Cause(ctx)), f.Close())
		}
	}
}

// Release lets go at once, also where a program that is just being started has the
// lock's descriptor too.
func (l *Lock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// IsLocked reports whether a process has the lock. A lock without a file has nobody.
func IsLocked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false // no lock, or none of ours
	}
	defer func() { _ = f.Close() }() // lets go of the shared lock too
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
