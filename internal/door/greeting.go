package door

import (
	"net"
	"slices"
	"sync"
	"time"
)

// greetingGrace is how long a connection may be silent before another one takes its
// place where there is none left. An honest client greets at once.
const greetingGrace = 250 * time.Millisecond

// greeting are connections that have not shaken hands yet, the oldest first. Its zero
// value is empty. It is safe for concurrent use.
type greeting struct {
	mu    sync.Mutex
	conns []silent
}

type silent struct {
	conn  net.Conn
	since time.Time
}

func (g *greeting) enter(nc net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, silent{nc, time.Now()})
	return nc
}

// leave takes a connection out that has shaken hands, or ended. It may be called twice.
func (g *greeting) leave(nc net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = slices.DeleteFunc(g.conns, func(s silent) bool { return s.conn == nc })
}

// endOldest closes the connection that has been silent for longest, if one was for
// longer than the grace.
func (g *greeting) endOldest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) == 0 || time.Since(g.conns[0].since) < greetingGrace {
		return false
	}
	_ = g.conns[0].conn.Close() // which ends its goroutine
	g.conns = slices.Delete(g.conns, 0, 1)
	return true
}
