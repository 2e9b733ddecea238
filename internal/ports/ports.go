// Package ports publishes what listens inside a sandbox on the loopback of this
// machine, on 127.0.0.1 and ::1 and nowhere else (U-06).
//
// The host accepts, and connects through [loopback.Network] to the one port inside that was named.
// Nothing inside says where the host connects to, and nothing of it is reached that does not listen
// on the sandbox's own loopback. Bytes pass as they are, so that HTTP and websockets do; each
// direction ends by itself. What is published ends with the session.
package ports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

const (
	// MaxConnections of a session are carried at once; further ones are closed.
	MaxConnections = 128
	// lookEvery is how often it is looked for new ports while a command runs.
	lookEvery = 500 * time.Millisecond
	// acceptPause is how long accepting rests when the machine has no descriptor left.
	acceptPause = 50 * time.Millisecond
	// chooseTries is how often the kernel is asked for a port that is free by IPv4 and IPv6.
	chooseTries = 8
)

// kindPublish records what of a sandbox this machine's loopback leads to, before it does.
const kindPublish nacre.Kind = "port.publish"

// Options are what is published, and for whom. All but Taken and Told are required.
type Options struct {
	Request
	Record nacre.Recorder
	// Claim says that a port of this machine is nacre's until ctx ends, before it is
	// listened on: no session may reach it as a service of this machine.
	Claim func(ctx context.Context, port uint16) error
	// Taken are ports inside on which nacre itself listens.
	Taken []uint16
	// Told is told, in one line each, of ports that come while the command runs.
	Told func(text string)
}

// Published is what a session publishes. A nil one is nothing.
type Published struct {
	o       Options
	network *loopback.Network
	ctx     context.Context //nolint:containedctx // the lifetime of what is published, which Close ends
	end     context.CancelFunc
	working sync.WaitGroup
	slots   chan struct{}
	bound   []door
	begun   bool
	known   map[uint16]bool // ports inside that were looked at
	full    bool            // it was said that there are too many
}

// door is one port with what listens for it.
type door struct {
	Publication
	listeners []net.Listener
}

// Open listens on what was named, and carries nothing before [Published.Begin].
func Open(ctx context.Context, o Options) (*Published, error) {
	if o.Nothing() {
		return nil, nil
	}
	network, err := loopback.New()
	if err != nil {
		return nil, err
	}
	p := &Published{o: o, network: network, slots: make(chan struct{}, MaxConnections), known: map[uint16]bool{}}
	p.ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, port := range o.Taken {
		p.known[port] = true
	}
	for _, publication := range o.Ports {
		if p.known[publication.Inside] && slices.Contains(o.Taken, publication.Inside) {
			return nil, errors.Join(fmt.Errorf("--publish %d:%d: port %d inside is nacre's own", publication.Host, publication.Inside, publication.Inside), p.Close())
		}
		if err := p.bind(publication); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Network is what the sandbox is started with; nil where nothing is published.
func (p *Published) Network() *loopback.Network {
	if p == nil {
		return nil
	}
	return p.network
}

// Links are what was named, as a person opens it.
func (p *Published) Links() []string {
	if p == nil {
		return nil
	}
	links := make([]string, len(p.bound))
	for i, d := range p.bound {
		links[i] = d.link()
	}
	return links
}

// link names an address, and no name: nacre's own page is at another host, so that
// no cookie crosses.
func (d door) link() string {
	return fmt.Sprintf("http://127.0.0.1:%d leads to port %d inside", d.Host, d.Inside)
}

// Begin carries connections from now on: the sandbox runs.
func (p *Published) Begin() {
	if p == nil || p.begun {
		return
	}
	p.begun = true
	for _, d := range p.bound {
		p.serve(d)
	}
	if p.o.Auto {
		p.working.Go(p.watch)
	}
}

// Close ends all of it, and returns when nothing of it is left.
func (p *Published) Close() error {
	if p == nil {
		return nil
	}
	p.end()
	p.working.Wait()
	for _, d := range p.bound {
		for _, l := range d.listeners {
			_ = l.Close() // which it may be already
		}
	}
	return p.network.Close()
}

// bind listens on a port that was named, once that is recorded.
func (p *Published) bind(publication Publication) error {
	if err := p.o.Claim(p.ctx, publication.Host); err != nil {
		return fmt.Errorf("publish port %d: %w", publication.Host, err)
	}
	listeners, err := p.listen(publication.Host)
	if err != nil {
		return refused(publication.Host, err)
	}
	return p.keep(publication, listeners)
}

// refused says what to do where a port cannot be had.
func refused(port uint16, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		other := port%10000 + 10000
		if other == port {
			other += 10000
		}
		return fmt.Errorf("port %d of this machine is taken by another program: name a free one, such as --publish %d:%d", port, other, port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %d of this machine is for root alone: name one from 1024 on, such as --publish %d:%d", port, port+8000, port)
	}
	return fmt.Errorf("publish port %d: %w", port, err)
}

// keep keeps what listens, once that is recorded.
func (p *Published) keep(publication Publication, listeners []net.Listener) error {
	d := door{publication, listeners}
	if err := p.record(d); err != nil {
		for _, l := range listeners {
			_ = l.Close() // the first error is the one to tell
		}
		return err
	}
	p.bound = append(p.bound, d)
	return nil
}

func (p *Published) record(d door) error {
	addresses := make([]string, len(d.listeners))
	for i, l := range d.listeners {
		addresses[i] = l.Addr().String()
	}
	detail, err := json.Marshal(map[string]any{"addresses": addresses, "inside": d.Inside})
	if err != nil {
		return err
	}
	return p.o.Record.Commit(p.ctx, nacre.Record{Kind: kindPublish, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: detail})
}

// listen takes a port of both loopback addresses: were one of them another program's,
// the name localhost would lead to either.
func (p *Published) listen(port uint16) ([]net.Listener, error) {
	var config net.ListenConfig
	four, err := config.Listen(p.ctx, "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(four.Addr().String())
	if err != nil {
		return nil, errors.Join(err, four.Close())
	}
	six, err := config.Listen(p.ctx, "tcp6", netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String())
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT): // a machine without IPv6
		return []net.Listener{four}, nil
	case err != nil:
		return nil, errors.Join(err, four.Close())
	}
	return []net.Listener{four, six}, nil
}

// serve accepts until the session ends.
func (p *Published) serve(d door) {
	for _, l := range d.listeners {
		stop := context.AfterFunc(p.ctx, func() { _ = l.Close() }) // accept then fails, which ends the loop
		p.working.Go(func() {
			defer stop()
			p.accept(l, d.Inside)
		})
	}
}

func (p *Published) accept(l net.Listener, inside uint16) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || p.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // it came while the session ended
			}
			return
		}
		if err != nil {
			p.rest(acceptPause)
			continue
		}
		select {
		case p.slots <- struct{}{}:
			p.working.Go(func() {
				defer func() { <-p.slots }()
				p.carry(conn, inside)
			})
		default:
			_ = conn.Close() // there are too many
		}
	}
}

// rest waits, or less where the session ends.
func (p *Published) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ctx.Done():
	case <-timer.C:
	}
}

// carry moves bytes both ways. One that nobody inside accepts is closed.
func (p *Published) carry(conn net.Conn, inside uint16) {
	defer func() { _ = conn.Close() }()
	within, err := p.network.Dial(inside)
	if err != nil {
		return
	}
	defer func() { _ = within.Close() }()
	stop := context.AfterFunc(p.ctx, func() { _, _ = conn.Close(), within.Close() })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { pass(conn, within) })
	pass(within, conn)
	back.Wait()
}

// pass copies one direction. Its end is passed on, and where it breaks both end.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it is gone otherwise
	}
}

// watch publishes what begins to listen inside, until the session ends.
func (p *Published) watch() {
	for _, d := range p.o.Ports {
		p.known[d.Inside] = true
	}
	for p.ctx.Err() == nil {
		listening, err := p.network.Listening()
		if err != nil {
			if p.ctx.Err() == nil {
				p.tell("ports that begin to listen inside are not seen any more: " + err.Error())
			}
			return
		}
		for _, port := range listening {
			p.found(port)
		}
		p.rest(lookEvery)
	}
}

// found publishes a port that was not known. A port is announced once, and no more of
// them than a session publishes.
func (p *Published) found(inside uint16) {
	if p.known[inside] || p.full {
		return
	}
	if len(p.bound) >= MaxPublished {
		p.full = true
		p.tell("port " + strconv.Itoa(int(inside)) + " inside, and further ones, are not published: " + strconv.Itoa(MaxPublished) + " are already")
		return
	}
	p.known[inside] = true
	d, err := p.choose(inside)
	if err != nil {
		if p.ctx.Err() == nil {
			p.tell(fmt.Sprintf("port %d inside is not published: %v", inside, err))
		}
		return
	}
	p.serve(d)
	p.tell(d.link())
}

// choose takes a free port, which the kernel names.
func (p *Published) choose(inside uint16) (door, error) {
	var listeners []net.Listener
	var err error
	for range chooseTries { // one that is free by IPv4 may be taken by IPv6
		if listeners, err = p.listen(0); err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return door{}, err
	}
	at, err := netip.ParseAddrPort(listeners[0].Addr().String())
	if err == nil {
		err = p.o.Claim(p.ctx, at.Port()) // before anything is accepted there
	}
	if err != nil {
		for _, l := range listeners {
			_ = l.Close() // the first error is the one to tell
		}
		return door{}, err
	}
	if err := p.keep(Publication{at.Port(), inside}, listeners); err != nil {
		return door{}, err
	}
	return p.bound[len(p.bound)-1], nil
}

func (p *Published) tell(text string) {
	if p.o.Told != nil {
		p.o.Told(text)
	}
}
