package testpeer

import (
	"bytes"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Wire is the network between clients and a PostgreSQL of [Postgres], which a test spoils.
type Wire struct {
	// Address is the database's, by way of the wire.
	Address string

	socket string
	ended  chan struct{}

	mu    sync.Mutex
	state wireState
	links map[*link]bool
}

// wireState is what a wire does to what passes.
type wireState struct {
	cut   bool
	still bool
	mute  []byte
	delay time.Duration
}

// link is one connection over a wire.
type link struct {
	client, server net.Conn
	muted          atomic.Bool
}

// NewWire lays a wire to the database at an address of [Postgres]. It ends with the test.
func NewWire(t testing.TB, address string) *Wire {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{
		Address: "postgres://nacre@" + l.Addr().String() + u.Path + "?sslmode=disable",
		socket:  filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"),
		ended:   make(chan struct{}), links: map[*link]bool{},
	}
	var work sync.WaitGroup
	work.Go(func() { w.accept(l, &work) })
	t.Cleanup(func() {
		_ = l.Close()
		close(w.ended)
		w.set(wireState{cut: true})
		w.hangUp()
		work.Wait()
	})
	return w
}

// Heal lets everything pass again. Connections that were spoiled are over.
func (w *Wire) Heal() { w.hangUp(); w.set(wireState{}) }

// Cut ends all connections and refuses new ones.
func (w *Wire) Cut() { w.set(wireState{cut: true}); w.hangUp() }

// Mute lets through what clients say, and on a connection on which a client said a word
// nothing of what it is answered to it.
func (w *Wire) Mute(word string) { w.set(wireState{mute: []byte(word)}) }

// Muted tells whether a client waits for an answer that [Wire.Mute] keeps from it.
func (w *Wire) Muted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		if l.muted.Load() {
			return true
		}
	}
	return false
}

// Stall lets nothing pass and hangs up nowhere, as where a cable was pulled.
func (w *Wire) Stall() { w.set(wireState{still: true}) }

// Slow lets each piece of what either side says wait.
func (w *Wire) Slow(delay time.Duration) { w.set(wireState{delay: delay}) }

// HalfClose tells the clients of all connections that the server said its last, while
// what they say still passes. New connections are as always.
func (w *Wire) HalfClose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		_ = l.client.(*net.TCPConn).CloseWrite()
	}
}

func (w *Wire) set(state wireState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
}

func (w *Wire) now() wireState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *Wire) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		_, _ = l.client.Close(), l.server.Close()
	}
}

func (w *Wire) accept(l net.Listener, work *sync.WaitGroup) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", w.socket)
		if err != nil || w.now().cut {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		work.Go(func() { w.carry(&link{client: client, server: server}) })
	}
}

// carry passes on what both sides of a connection say until one of them ends it.
func (w *Wire) carry(l *link) {
	w.mu.Lock()
	w.links[l] = true
	if w.state.cut { // meanwhile
		_ = l.client.Close()
	}
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, answers := range []bool{false, true} {
		both.Go(func() {
			w.pass(l, answers)
			_, _ = l.client.Close(), l.server.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

// pass carries one way of a connection: what the client says, or what it is answered.
func (w *Wire) pass(l *link, answers bool) {
	from, to := l.client, l.server
	if answers {
		from, to = to, from
	}
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		state := w.now()
		select {
		case <-time.After(state.delay):
		case <-w.ended:
			return
		}
		if !answers && len(state.mute) > 0 && bytes.Contains(piece[:n], state.mute) {
			l.muted.Store(true)
		}
		if state.still || answers && l.muted.Load() {
			continue
		}
		// a client that was told that the server said its last still speaks
		if _, err := to.Write(piece[:n]); err != nil && !answers {
			return
		}
	}
}
