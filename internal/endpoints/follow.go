package endpoints

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/plugin"
)

// Follow calls each, one call at a time, with the events of every nacre serve that runs now, as
// they happen. Prefixes of topics say which (D-32). It returns nil when the last of them has ended,
// and the error of each where it returns one. Without a nacre serve it is [NotReady].
func Follow(ctx context.Context, inst *installation.Installation, prefixes []string, each func(plugin.Envelope) error) error {
	sockets, err := inst.Registry.Paths().EventsSockets()
	if err != nil {
		return err
	}
	var open []net.Conn
	for _, path := range sockets {
		nc, err := new(net.Dialer).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			open = append(open, nc)
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist): // its process is dead
		default:
			return errors.Join(err, closeAll(open))
		}
	}
	if len(open) == 0 {
		return &installation.NotReady{What: "no nacre serve is running, so nothing happens that could be shown", Next: "start one in another terminal: nacre serve"}
	}
	return followAll(ctx, open, prefixes, each)
}

func closeAll(open []net.Conn) error {
	var errs []error
	for _, nc := range open {
		errs = append(errs, nc.Close())
	}
	return errors.Join(errs...)
}

// followAll ends when the last connection does, or the first fails.
func followAll(ctx context.Context, open []net.Conn, prefixes []string, each func(plugin.Envelope) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var one sync.Mutex
	var followed sync.WaitGroup
	for _, nc := range open {
		followed.Go(func() {
			err := bus.Follow(ctx, nc, prefixes, func(e plugin.Envelope) error {
				one.Lock()
				defer one.Unlock()
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return each(e)
			})
			if err != nil {
				stop(err)
			}
		})
	}
	followed.Wait()
	return context.Cause(ctx)
}
