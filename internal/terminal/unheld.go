package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// heldFor is how long a write waits for a terminal that does not take it, and maxUnshown how
	// much waits for it then, in bytes.
	heldFor    = 5 * time.Second
	maxUnshown = 1 << 20
)

// Unheld writes to a terminal that a person may have stopped, as Ctrl-S does: after a few seconds
// what is written waits by itself, and no session waits for it. What is too much is left out, and
// that is said when the terminal goes on; the log of the session has it. Its methods may be called
// concurrently.
type Unheld struct {
	out io.Writer

	mu      sync.Mutex
	waits   []byte
	left    int           // bytes that were left out
	written chan struct{} // closed when nothing waits; nil where nothing does
	stopped bool          // the terminal did not take what was written in time
	err     error
}

// NewUnheld writes to out.
func NewUnheld(out io.Writer) *Unheld { return &Unheld{out: out} }

// Write implements [io.Writer]. An error is that of an earlier write where this one did not wait.
func (u *Unheld) Write(p []byte) (int, error) {
	written, wait := u.add(p)
	if wait {
		late := time.NewTimer(heldFor)
		defer late.Stop()
		select {
		case <-written:
		case <-late.C:
			u.stop(written)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(p), u.err
}

// add lets p be written after all that waits, and says whether that is to be waited for.
func (u *Unheld) add(p []byte) (written chan struct{}, wait bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped && len(u.waits)+len(p) > maxUnshown {
		u.left += len(p)
		return nil, false
	}
	u.waits = append(u.waits, p...)
	if u.written == nil {
		u.written = make(chan struct{})
		go u.work(u.written)
	}
	return u.written, !u.stopped
}

// stop notes that the terminal is held, unless all was written meanwhile.
func (u *Unheld) stop(written chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = u.stopped || u.written == written
}

func (u *Unheld) work(written chan struct{}) {
	for {
		u.mu.Lock()
		text := u.waits
		if len(text) == 0 && u.left > 0 {
			text = fmt.Appendf(nil, "\r\n! %d bytes were left out while the terminal was stopped: nacre logs has them\r\n", u.left)
			u.left = 0
		}
		if len(text) == 0 {
			u.written, u.stopped = nil, false
			u.mu.Unlock()
			close(written)
			return
		}
		u.waits = nil
		u.mu.Unlock()
		if _, err := u.out.Write(text); err != nil {
			u.mu.Lock()
			u.err = err
			u.mu.Unlock()
		}
	}
}
