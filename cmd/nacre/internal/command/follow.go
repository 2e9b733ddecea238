package command

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Follow shows something until it is over, a person presses Ctrl-C, or nobody reads what is
// shown any more. The last two are how one leaves it: nothing is said of them.
func (e *Env) Follow(ctx context.Context, show func(context.Context) error) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	unread, end, err := whenUnread(e.Stdout, leave)
	if err != nil {
		return err
	}
	err = show(ctx)
	end()
	switch {
	case err == nil, errors.Is(err, unix.EPIPE):
		return nil
	case left(ctx, err) && e.Interrupted():
		return Exit(ExitInterrupted)
	case left(ctx, err) && unread():
		return nil
	}
	return err
}

// whenUnread calls leave once nobody reads a stream any more, until end is called.
func whenUnread(stream *os.File, leave func()) (unread func() bool, end func(), err error) {
	ends, stop, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	var gone bool
	var wait sync.WaitGroup
	wait.Go(func() {
		defer func() { _ = ends.Close() }() // nothing came over it
		if gone = pollClosed(stream, ends); gone {
			leave()
		}
	})
	end = func() {
		_ = stop.Close()
		wait.Wait()
	}
	return func() bool { return gone }, end, nil
}

// pollClosed waits until nobody reads a stream, or until ends is closed, which it tells apart.
func pollClosed(stream, ends *os.File) bool {
	// A stream that is asked for nothing tells of errors alone.
	wait := []unix.PollFd{{Fd: int32(stream.Fd())}, {Fd: int32(ends.Fd()), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	for {
		_, err := unix.Poll(wait, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && wait[1].Revents == 0
	}
}

// left tells the error of a context that is over.
func left(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}
