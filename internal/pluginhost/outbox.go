package pluginhost

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// outbox holds the lines that wait to be written to a handler. A line that its pipe
// takes at once is written by who sends it: to wake somebody for that takes longer.
type outbox struct {
	to io.Writer
	// raw is the pipe, where a write to it does not block; else nil.
	raw syscall.RawConn

	// sending keeps lines in order, and whole.
	sending sync.Mutex
	waiting chan []byte
	// unwritten are the lines that wait, and the one that is being written.
	unwritten atomic.Int64
}

func newOutbox(to io.Writer) *outbox {
	return &outbox{to: to, raw: unblocking(to), waiting: make(chan []byte, maxQueued)}
}

// unblocking is the file below a writer, where a write to it fails rather than waits.
func unblocking(w io.Writer) syscall.RawConn {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	var flags int
	var failed error
	err = raw.Control(func(fd uintptr) { flags, failed = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	if err != nil || failed != nil || flags&unix.O_NONBLOCK == 0 {
		return nil
	}
	return raw
}

// put writes a line or lets it wait, and reports whether there was room.
func (o *outbox) put(line []byte) bool {
	o.sending.Lock()
	defer o.sending.Unlock()
	if o.unwritten.Load() == 0 {
		line = line[o.now(line):]
	}
	if len(line) == 0 {
		return true
	}
	o.unwritten.Add(1)
	select {
	case o.waiting <- line:
		return true
	default:
		o.unwritten.Add(-1)
		return false
	}
}

// now writes as much as the pipe takes at once, and says how much that was. An error
// is left to who writes the rest.
func (o *outbox) now(line []byte) int {
	if o.raw == nil {
		return 0
	}
	written := 0
	err := o.raw.Write(func(fd uintptr) bool {
		written, _ = unix.Write(int(fd), line)
		return true
	})
	if err != nil {
		return 0
	}
	return max(written, 0)
}

// drain writes what waits until ended is closed or the handler takes no more.
func (o *outbox) drain(ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case line := <-o.waiting:
			_, err := o.to.Write(line)
			o.unwritten.Add(-1)
			if err != nil {
				return
			}
		}
	}
}
