package process

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// readTime is how long what a process printed may take to be read once the process has
// ended.
const readTime = time.Second

// reading knows when what a process printed was read to its end, by those who read it.
type reading struct {
	mu      sync.Mutex
	streams map[*os.File]*ending
}

// ending is the end of one stream.
type ending struct {
	read bool // somebody reads it
	once sync.Once
	seen chan struct{}
}

func newReading(files ...*os.File) *reading {
	r := &reading{streams: map[*os.File]*ending{}}
	for _, f := range files {
		r.streams[f] = &ending{seen: make(chan struct{})}
	}
	return r
}

// of gives a stream to somebody who reads it.
func (r *reading) of(f *os.File, meter *sandbox.Meter) metered {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.streams[f]
	e.read = true
	return metered{meter.Reader(f), f, e}
}

// wait returns when whoever reads has seen the end, or takes too long.
func (r *reading) wait() {
	late := time.NewTimer(readTime)
	defer late.Stop()
	r.mu.Lock()
	var open []*ending
	for _, e := range r.streams {
		if e.read {
			open = append(open, e)
		}
	}
	r.mu.Unlock()
	for _, e := range open {
		select {
		case <-e.seen:
		case <-late.C:
			return
		}
	}
}

// metered is a stream that is counted.
type metered struct {
	io.Reader
	io.Closer
	end *ending
}

// Read implements io.Reader.
func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if err != nil {
		m.end.once.Do(func() { close(m.end.seen) })
	}
	return n, err
}
