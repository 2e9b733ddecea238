package asking

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/session"
)

const (
	// serviceDial bounds the attempt to reach a service of this machine.
	serviceDial = 10 * time.Second
	// maxServed are the connections to one service that are carried at once.
	maxServed = 128
)

// Services are those of this machine that a session may reach (U-06). A connection to one
// is a tunnel through the session's proxy, which asks, records and bounds it as any
// other: nothing that is sent says where the host connects to.
type Services struct {
	inst *installation.Installation
	list []config.Service
}

// OpenServices refuses what nacre itself listens on. What the config lists is refused
// at each connection alone: the port may be another program's by then.
func OpenServices(inst *installation.Installation, named []string) (Services, error) {
	list, err := inst.Config.Egress.Services(named)
	if err != nil {
		return Services{}, err
	}
	for _, s := range list {
		if own, err := inst.Registry.Paths().OwnsPort(s.Port); err != nil || own && !s.Ask {
			return Services{}, errors.Join(fmt.Errorf("--reach %s: nacre itself listens on port %d", s, s.Port), err)
		}
	}
	return Services{inst, list}, nil
}

// Into lets through those that are not asked for, and dials all of them by themselves.
func (v Services) Into(o egress.Options) egress.Options {
	for _, s := range v.list {
		if !s.Ask {
			o.Rules = append(o.Rules[:len(o.Rules):len(o.Rules)], s.Rule())
		}
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	o.Dial = v.dialing(o.Dial)
	return o
}

type dialer func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// dialing dials a service at each of its addresses, and never one of nacre's own, be that pinned to a name.
// A port is claimed before nacre listens there, so that one which was reached and is not
// claimed is another program's.
func (v Services) dialing(dial dialer) dialer {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		addresses := []netip.AddrPort{to}
		for _, s := range v.list {
			if s.Rule().Pin == to {
				addresses = s.Addresses()
			}
		}
		conn, err := dialFirst(ctx, dial, addresses)
		if err != nil || !to.Addr().Unmap().IsLoopback() {
			return conn, err
		}
		if own, err := v.inst.Registry.Paths().OwnsPort(to.Port()); own || err != nil {
			return nil, errors.Join(fmt.Errorf("nacre itself listens on port %d", to.Port()), err, conn.Close())
		}
		return conn, nil
	}
}

func dialFirst(ctx context.Context, dial dialer, addresses []netip.AddrPort) (conn net.Conn, err error) {
	for _, to := range addresses {
		if conn, err = dial(ctx, to); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Serve leads a socket of the session to each service, through its proxy.
func (v Services) Serve(s *session.Session) error {
	var errs []error
	for _, service := range v.list {
		errs = append(errs, s.Listen(socketOf(service), func(ctx context.Context, l *net.UnixListener) error {
			return lead(ctx, l, tunnel{filepath.Join(s.SocketDir(), nacre.EgressSocket), service.Port})
		}))
	}
	return errors.Join(errs...)
}

func socketOf(s config.Service) string { return "reach-" + strconv.Itoa(int(s.Port)) + ".sock" }

// Forwards are the ports inside that lead to those sockets.
func (v Services) Forwards() []nacre.Forward {
	var all []nacre.Forward
	for _, s := range v.list {
		all = append(all, nacre.Forward{Port: s.Port, Socket: socketOf(s), Both: true})
	}
	return all
}

// Ports are those inside that are taken.
func (v Services) Ports() []uint16 {
	var all []uint16
	for _, s := range v.list {
		all = append(all, s.Port)
	}
	return all
}

// Texts name the services for a person.
func (v Services) Texts() []string {
	var all []string
	for _, s := range v.list {
		text := s.String()
		if s.Ask {
			text += " (asked)"
		}
		all = append(all, text)
	}
	return all
}

// tunnel leads through a session's proxy to one port of this machine.
type tunnel struct {
	proxy string
	port  uint16
}

// lead carries connections until ctx ends.
func lead(ctx context.Context, l net.Listener, to tunnel) error {
	ctx, end := context.WithCancel(ctx)
	var carried sync.WaitGroup
	defer carried.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // accept then fails, which ends the loop
	defer stop()
	places := make(chan struct{}, maxServed)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		carried.Go(func() {
			defer func() { <-places }()
			to.carry(ctx, conn)
		})
	}
}

// carry asks the proxy for the port, and passes bytes both ways once it agreed.
func (t tunnel) carry(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	dialer := net.Dialer{Timeout: serviceDial}
	proxy, err := dialer.DialContext(ctx, "unix", t.proxy)
	if err != nil {
		return
	}
	defer func() { _ = proxy.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = conn.Close(), proxy.Close() })
	defer stop()
	if _, err := fmt.Fprintf(proxy, "CONNECT localhost:%d HTTP/1.1\r\n\r\n", t.port); err != nil {
		return
	}
	from := bufio.NewReader(proxy)
	answer, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }() // a tunnel has none
	if answer.StatusCode != http.StatusOK {
		return // which the proxy recorded
	}
	var back sync.WaitGroup
	back.Go(func() { pass(conn, proxy, from) })
	pass(proxy, conn, conn)
	back.Wait()
}

// pass copies one direction. Its end is passed on, and where it breaks both end.
func pass(to, from net.Conn, read io.Reader) {
	if _, err := io.Copy(to, read); err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it is gone otherwise
	}
}
