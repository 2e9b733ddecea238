package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
)

// maxSocketPath is the longest path of a unix socket, in bytes.
const maxSocketPath = 107

// Listen opens an endpoint: at its TCP address, or at the unix socket of the path. A socket that a
// dead process left is replaced. One that is held is an error, since its holder's peers would be
// taken away. Closing the listener takes the socket away.
func Listen(ctx context.Context, at netip.AddrPort, path string) (net.Listener, error) {
	if at.IsValid() {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("tcp://%s is taken: by another nacre serve, or by another program: %w", at, err)
		}
		return ln, err
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s is too long for a unix socket: set XDG_RUNTIME_DIR to a shorter path", path)
	}
	held, err := hold(path + ".lock")
	if err != nil {
		return nil, err
	}
	ln, err := bind(ctx, path)
	if err != nil {
		_ = release(held) // the first error is the one to tell
		return nil, err
	}
	return &socket{Listener: ln, held: held}, nil
}

// bind is called by whoever holds the lock, so that what lies at the path is
// nobody's.
func bind(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close() // the first error is the one to tell
		return nil, err
	}
	return ln, nil
}

// holdTries is how often a lock is asked for that others take away meanwhile.
const holdTries = 8

// hold takes a lock that the kernel drops when the process dies. A lock file
// that was removed meanwhile locks nothing: the one at the path is what counts.
func hold(path string) (*os.File, error) {
	for range holdTries {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = f.Close() // the first error is the one to tell
			return nil, fmt.Errorf("%s is held by another nacre serve: %w", path, err)
		}
		ours, err := f.Stat()
		if there, failed := os.Lstat(path); err == nil && failed == nil && os.SameFile(ours, there) {
			return f, nil
		}
		_ = f.Close() // it locked nothing
	}
	return nil, fmt.Errorf("%s: others keep taking it", path)
}

// release removes the lock while it is held.
func release(f *os.File) error { return errors.Join(os.Remove(f.Name()), f.Close()) }

// socket is a unix listener with the lock on its path.
type socket struct {
	net.Listener
	held *os.File
	once sync.Once
	err  error
}

// Close takes the socket away and then the lock. Whoever calls it, it is gone
// when Close returns.
func (s *socket) Close() error {
	s.once.Do(func() { s.err = errors.Join(s.Listener.Close(), release(s.held)) })
	return s.err
}

// Sweep removes those unix sockets, opened by Listen, whose process is dead.
func Sweep(sockets []string) error {
	var errs []error
	for _, path := range sockets {
		held, err := hold(path + ".lock")
		if err != nil {
			continue // somebody's
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		errs = append(errs, release(held))
	}
	return errors.Join(errs...)
}
