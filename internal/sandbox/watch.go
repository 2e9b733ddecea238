//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchesEvery is how often the kernel is asked whether this user still gets
	// what epoll takes.
	watchesEvery = 100 * time.Millisecond
	// watchesWanted instances, of as many files each: enough for a program to start,
	// of which a few take one for each of their threads.
	watchesWanted = 16
)

// WatchUser asks until ctx ends whether this user can still have epoll look at files, and returns
// why the sandbox has to end, or "" (M-16). An ordinary user's agent is that user to the kernel,
// which gives each a number of such watches and no namespace a share. Who takes them all keeps
// every program of the user's from starting, and with them `nacre sessions stop`. Root's agents are
// other users. It calls looked once it knows whether there are any at the beginning: a sandbox that
// started before could take them all and pass for others.
func WatchUser(ctx context.Context, looked func()) string {
	if os.Geteuid() == 0 {
		looked()
		return ""
	}
	var files [watchesWanted]int
	for i := range files {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			looked()
			return "" // there is nothing to ask with
		}
		defer func() { _ = unix.Close(fd) }()
		files[i] = fd
	}
	none := noWatches(files[:])
	looked()
	if none {
		return "" // it was not this sandbox
	}
	tick := time.NewTicker(watchesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
		if noWatches(files[:]) && ctx.Err() == nil {
			return "this user has no epoll watches left, without which no program starts, nacre's own neither"
		}
	}
}

// noWatches reports whether epoll refuses to look at so many files.
func noWatches(files []int) bool {
	for range watchesWanted {
		instance, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return false
		}
		defer func() { _ = unix.Close(instance) }()
		for _, fd := range files {
			err := unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
			if errors.Is(err, unix.ENOSPC) {
				return true
			}
		}
	}
	return false
}
