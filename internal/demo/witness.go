//go:build linux

package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watch counts what the kernel reports about one path on the host: a witness
// that nothing inside a sandbox can talk out of what it saw.
type watch struct {
	file   *os.File
	events atomic.Int64
	done   chan struct{}
}

// watchPath begins to count events of the inotify mask on path.
func watchPath(path string, mask uint32) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{})}
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		return nil, errors.Join(&os.PathError{Op: "watch", Path: path, Err: err}, w.file.Close())
	}
	go w.count()
	return w, nil
}

func (w *watch) count() {
	defer close(w.done)
	buffer := make([]byte, 4096)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return
		}
		if n > 0 {
			w.events.Add(1)
		}
	}
}

// seen is how often something happened.
func (w *watch) seen() int { return int(w.events.Load()) }

func (w *watch) close() error {
	err := w.file.Close()
	<-w.done
	return err
}

// collector is the attacker's server, on the host's loopback: it counts what arrives.
type collector struct {
	listener net.Listener
	server   *http.Server
	bytes    atomic.Int64
	hits     atomic.Int64
	done     chan error
}

const collectorLimit = 1 << 20

func openCollector(ctx context.Context) (*collector, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &collector{listener: listener, done: make(chan error, 1)}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: 5 * time.Second}
	go func() { c.done <- c.server.Serve(listener) }()
	return c, nil
}

// ServeHTTP takes whatever is sent.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, io.LimitReader(r.Body, collectorLimit)) // what arrived, arrived
	c.bytes.Add(n)
	c.hits.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

func (c *collector) address() string { return c.listener.Addr().String() }

func (c *collector) close() error {
	err := c.server.Close()
	if serveErr := <-c.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
