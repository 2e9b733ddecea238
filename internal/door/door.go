// Package door promises that one session's request socket is served by the rules of the wire
// (D-01…D-07, D-10). Who asks is known from the listener alone, and every message gets one
// structured answer. Nothing that a client does loses another's request, hangs, or leaves anything
// behind. It owns stages 1 and 2, envelope and topic, and the way back: sanitize, log, forward. It
// does not decide: payload, authority, confirmation and routing are the kernel's.
package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
)

// acceptPause is how long to wait where the host has no descriptor for a new connection.
const acceptPause = 50 * time.Millisecond

// defaultAnswer is how long every client waits for an answer unless it is told otherwise.
const defaultAnswer = 35 * time.Second

// Kernel carries out calls; its methods may be called concurrently.
type Kernel interface {
	// Has reports whether the tool exists: stage 2.
	Has(tool nacre.ToolName) bool
	// Source is the directory name of the plugin behind a tool, "core" for the
	// core's own (D-05).
	Source(tool nacre.ToolName) string
	// Call is stages 3 to 6. It records what it decides, returns soon after ctx ends, and refuses
	// with a *nacre.Refusal. Any other error reaches the agent as PLUGIN_ERROR without detail.
	Call(ctx context.Context, call nacre.Call) (nacre.Outcome, error)
}

// Session is who every request of a listener comes from (D-01).
type Session struct {
	ID        nacre.SessionID
	Group     nacre.Group
	Principal nacre.Principal
	// PeerUID are the host's numbers of the users that may connect; none is an error.
	PeerUID []uint32
}

// Deps are what the door needs of its host. All but Closing and Limits are required, and
// may be called concurrently.
type Deps struct {
	Recorder nacre.Recorder
	Now      func() time.Time
	// NewID returns a new id for an envelope.
	NewID func() string
	// Redact takes secrets and personal data out of a JSON document, and says which fields
	// held them (D-15). Sanitize takes out secrets alone: what the kernel answers with holds
	// the personal data that it lets its session see, and words in the place of the rest.
	Redact, Sanitize func(document []byte) (redacted []byte, fields []string)
	// Closing, where set and once closed, lets no request in any more, while those in
	// flight go on until they are answered or the door's context ends (D-24).
	Closing <-chan struct{}
	// Answer tells a client that connects how long to wait for an answer; nil means 35 s.
	Answer func() time.Duration
	Limits Limits
}

// Limits of one session's socket. Zero means the default, never "none".
type Limits struct {
	// InFlight requests at once; default 64 (D-03).
	InFlight int
	// Connections at once; default 128.
	Connections int
	// Handshake is the time from accept to READY; default 5 s.
	Handshake time.Duration
	// Message is the time from a message's first byte to its last; default 30 s.
	Message time.Duration
	// Write is the time in which a client must take an answer; default 10 s.
	Write time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.InFlight <= 0 {
		l.InFlight = 64
	}
	if l.Connections <= 0 {
		l.Connections = 128
	}
	if l.Handshake <= 0 {
		l.Handshake = 5 * time.Second
	}
	if l.Message <= 0 {
		l.Message = 30 * time.Second
	}
	if l.Write <= 0 {
		l.Write = 10 * time.Second
	}
	return l
}

// door is one session's.
type door struct {
	session Session
	kernel  Kernel
	deps    Deps
	flights flights
	rejects rejects
	buffers buffers
	// unsent is the size of the answers that are not written yet, in bytes.
	unsent atomic.Int64
	// places holds one token for each connection that may be open.
	places chan struct{}
	conns  sync.WaitGroup
	// greeting are the connections that have not shaken hands, the oldest first.
	greeting greeting
	// closed is when no request is let in any more.
	closed <-chan struct{}
}

// Serve answers the session's requests until ctx ends or the door is closing, which
// is not an error. Then it lets no request in, gives those that are in flight when
// ctx ends PLUGIN_UNAVAILABLE, and returns when the last is answered and every
// connection closed. It closes the listener. An error says that the session, a
// dependency, the listener or the recorder is not fit to serve.
func Serve(ctx context.Context, ln *net.UnixListener, s Session, k Kernel, deps Deps) error {
	defer func() { _ = ln.Close() }() // closed already where ctx ended
	if err := validate(s, k, deps); err != nil {
		return err
	}
	deps.Limits = deps.Limits.withDefaults()
	d := &door{
		session: s, kernel: k, deps: deps,
		flights: flights{limit: deps.Limits.InFlight},
		places:  make(chan struct{}, deps.Limits.Connections),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taking, stop := context.WithCancel(ctx)
	defer stop()
	d.closed = taking.Done()
	d.conns.Go(func() {
		select {
		case <-deps.Closing:
			stop()
		case <-d.closed:
		}
	})
	defer context.AfterFunc(taking, func() { _ = ln.Close() })()
	err := d.accept(ctx, taking, ln)
	stop()
	if err != nil {
		cancel()
	}
	d.conns.Wait()
	return errors.Join(err, d.closeRejects())
}

// isClosed reports whether no request is let in any more.
func (d *door) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

func validate(s Session, k Kernel, deps Deps) error {
	switch {
	case s.ID == "" || s.Group == "":
		return errors.New("door: the session has no id or no group")
	case s.Principal.Session != s.ID || s.Principal.Group != s.Group:
		return fmt.Errorf("door: the principal of %q in %q is not session %q in %q", s.Principal.Session, s.Principal.Group, s.ID, s.Group)
	case len(s.PeerUID) == 0:
		return errors.New("door: the session declares no peer uid")
	case k == nil || deps.Recorder == nil || deps.Now == nil || deps.NewID == nil || deps.Redact == nil || deps.Sanitize == nil:
		return errors.New("door: a kernel, recorder, clock, ids and redaction are required")
	}
	return nil
}

// accept hands each connection to a goroutine of its own until the listener closes.
func (d *door) accept(ctx, taking context.Context, ln *net.UnixListener) error {
	for {
		nc, err := ln.AcceptUnix()
		switch {
		case err == nil:
			d.admit(ctx, taking, nc)
		case taking.Err() != nil:
			return nil //nolint:nilerr // the listener was closed to end the door
		case isShortage(err):
			pause(taking, acceptPause)
		default:
			return fmt.Errorf("door: %w", err)
		}
	}
}

// isShortage tells an accept that may succeed later from a listener that is gone.
func isShortage(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// admit serves the connection if there is a place for it and its user is one
// that the session declares.
func (d *door) admit(ctx, taking context.Context, nc *net.UnixConn) {
	select {
	case d.places <- struct{}{}:
	default:
		d.rejectConnection(ctx, reasonConnections, "more than the limit of connections")
		if !d.makeRoom(taking) {
			_ = nc.Close() // nothing was read or written
			return
		}
	}
	d.conns.Go(func() {
		defer func() { <-d.places }()
		defer func() { _ = nc.Close() }() // closed already where the client failed
		defer func() {
			if p := recover(); p != nil { // one client's must not be every session's
				d.recordPanic(ctx, "", "", p)
			}
		}()
		if err := checkPeer(nc, d.session.PeerUID); err != nil {
			d.rejectConnection(ctx, reasonPeer, err.Error())
			return
		}
		defer d.greeting.leave(d.greeting.enter(nc))
		newConn(d, nc).serve(ctx, taking)
	})
}

// makeRoom ends the oldest of the connections that have said nothing yet, and takes its
// place: a crowd of silent ones keeps nobody out (F-72). Those that shook hands stay.
func (d *door) makeRoom(ctx context.Context) bool {
	if !d.greeting.endOldest() {
		return false
	}
	select {
	case d.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
