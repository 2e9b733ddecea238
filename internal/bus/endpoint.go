package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/zmtp"
)

// acceptPause is how long to wait where the host has no descriptor for a new connection.
const acceptPause = 50 * time.Millisecond

// handshakes is how many peers may be greeting at once, beside those that have.
const handshakes = 64

// The socket types of ZeroMQ that are met here.
const (
	typePUB  = "PUB"
	typeXPUB = "XPUB"
	typeSUB  = "SUB"
	typeXSUB = "XSUB"
)

// Limits of one ZeroMQ endpoint. Zero means the default, never "none".
type Limits struct {
	// Peers at once; default 64.
	Peers int
	// HighWater is how many bytes wait for one subscriber; an event beyond them
	// is dropped for it. Default 4 MiB.
	HighWater int
	// Handshake is the time from accept to READY; default 5 s.
	Handshake time.Duration
	// Message is the time from a message's first byte to its last; default 30 s.
	Message time.Duration
	// Write is the time in which a peer must take what is sent at once, at most
	// an event or 64 KiB; default 10 s.
	Write time.Duration
	// Drain is how long subscribers may take to fetch the rest at the end; default 2 s.
	Drain time.Duration
}

// DefaultLimits are those of an endpoint that says nothing else.
func DefaultLimits() Limits {
	return Limits{
		Peers: 64, HighWater: 4 << 20,
		Handshake: 5 * time.Second, Message: 30 * time.Second, Write: 10 * time.Second, Drain: 2 * time.Second,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Peers: positive(l.Peers, d.Peers), HighWater: positive(l.HighWater, d.HighWater),
		Handshake: positive(l.Handshake, d.Handshake), Message: positive(l.Message, d.Message), Write: positive(l.Write, d.Write), Drain: positive(l.Drain, d.Drain),
	}
}

// positive is the first of two values that is above zero.
func positive[T int | time.Duration](have, other T) T {
	if have > 0 {
		return have
	}
	return other
}

// endpoint accepts peers for one listener.
type endpoint struct {
	// name is who the peers are in accounts of drops.
	name   string
	limits Limits
	// kind is the endpoint's own socket type, takes are those of its peers.
	kind  string
	takes []string
	// maxMessage is the largest message of a peer, in bytes.
	maxMessage int
	// serve is a peer's life after the handshake.
	serve   func(ctx context.Context, p *peer) error
	dropped tally
	// doors and places hold a token for each connection, and for each peer.
	doors, places chan struct{}
	peers         sync.WaitGroup
}

// run serves peers until ctx ends, which is no error, and returns when all are gone.
func (e *endpoint) run(ctx context.Context, ln net.Listener) error {
	e.doors = make(chan struct{}, e.limits.Peers+handshakes)
	e.places = make(chan struct{}, e.limits.Peers)
	defer e.peers.Wait()
	ctx, cancel := context.WithCancel(ctx) // peers end with the listener, even where it fails
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			e.admit(ctx, nc)
		case ctx.Err() != nil:
			return nil // the listener was closed to end the endpoint
		case isShortage(err):
			pause(ctx, acceptPause)
		default:
			return fmt.Errorf("events: %s: %w", e.name, err)
		}
	}
}

// admit serves a connection in a goroutine of its own, if there is room.
func (e *endpoint) admit(ctx context.Context, nc net.Conn) {
	select {
	case e.doors <- struct{}{}:
	default:
		e.drop(DropPeers, "more than the limit of connections")
		_ = nc.Close() // nothing was read or written
		return
	}
	e.peers.Go(func() {
		defer func() { <-e.doors }()
		defer func() { _ = nc.Close() }() // closed already where the peer failed
		defer func() {
			if recover() != nil { // one peer's must not be every peer's
				e.drop(DropProtocol, "an unexpected end inside the host")
			}
		}()
		p := &peer{nc: nc, r: zmtp.NewReader(nc, e.maxMessage), limits: e.limits}
		e.tell(e.welcome(ctx, p))
	})
}

func (e *endpoint) welcome(ctx context.Context, p *peer) error {
	cut := context.AfterFunc(ctx, func() { _ = p.nc.Close() }) // whoever is still greeting waits for nothing
	defer cut()
	if err := p.handshake(e.kind, e.takes...); err != nil {
		return err
	}
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	default:
		e.drop(DropPeers, "more than the limit of peers")
		return nil
	}
	if !cut() {
		return nil // the endpoint ended meanwhile
	}
	return e.serve(ctx, p)
}

// tell leaves out peers that came and went.
func (e *endpoint) tell(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.drop(DropSlow, "the peer did not do its part in time")
	case errors.Is(err, zmtp.ErrProtocol), errors.Is(err, zmtp.ErrTooLarge):
		e.drop(DropProtocol, err.Error())
	}
}

func (e *endpoint) drop(reason DropReason, detail string) {
	e.dropped.add(Drop{Who: e.name, Reason: reason, Detail: detail})
}

// peer is one connection.
type peer struct {
	nc     net.Conn
	r      *zmtp.Reader
	limits Limits
}

// handshake exchanges greeting and READY. What the peer says of itself decides
// nothing but whether we can talk.
func (p *peer) handshake(kind string, takes ...string) error {
	if err := p.nc.SetDeadline(soon(p.limits.Handshake)); err != nil {
		return err
	}
	if _, err := p.nc.Write(zmtp.AppendGreeting(nil)); err != nil {
		return err
	}
	if err := p.r.Greeting(); err != nil {
		return err
	}
	if _, err := p.nc.Write(zmtp.AppendReady(nil, zmtp.Property{Name: zmtp.SocketType, Value: kind})); err != nil {
		return err
	}
	item, err := p.r.Next()
	if err != nil {
		return err
	}
	if item.Command != zmtp.Ready {
		return fmt.Errorf("%w: no READY", zmtp.ErrProtocol)
	}
	properties, err := zmtp.ParseProperties(item.Body)
	if err != nil {
		return err
	}
	if have, _ := zmtp.Lookup(properties, zmtp.SocketType); !slices.Contains(takes, have) {
		reason := "use a " + takes[0] + " here"
		_, _ = p.nc.Write(zmtp.AppendCommand(nil, zmtp.Error, append([]byte{byte(len(reason))}, reason...))) // closing anyway
		return fmt.Errorf("%w: a socket type other than %s", zmtp.ErrProtocol, takes[0])
	}
	return p.nc.SetDeadline(time.Time{})
}

// next waits as long as it takes for a message to begin; once begun it has to
// end in time.
func (p *peer) next() (zmtp.Item, error) {
	if err := p.r.Wait(); err != nil {
		return zmtp.Item{}, err
	}
	if p.r.Whole() {
		return p.r.Next()
	}
	if err := p.nc.SetReadDeadline(soon(p.limits.Message)); err != nil {
		return zmtp.Item{}, err
	}
	item, err := p.r.Next()
	if failed := p.nc.SetReadDeadline(time.Time{}); failed != nil && err == nil {
		err = failed
	}
	return item, err
}

// write sends frames that nobody else is writing beside.
func (p *peer) write(frames []byte) error {
	if err := p.nc.SetWriteDeadline(soon(p.limits.Write)); err != nil {
		return err
	}
	_, err := p.nc.Write(frames)
	return err
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

// soon is a deadline for the network, which runs on the machine's own clock.
func soon(d time.Duration) time.Time { return time.Now().Add(d) }
