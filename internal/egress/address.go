package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/address"
	"github.com/nacre-dev/nacre/internal/outward"
)

const (
	// resolveTimeout bounds one look-up.
	resolveTimeout = 10 * time.Second
	// dialTimeout bounds the attempt at one address.
	dialTimeout = 10 * time.Second
)

// addresses says how a listed host is reached: by its pin, by a proxy of the operator's, which is told the
// name, or by what the host resolves to. All addresses that it resolves to must be public. One address that is
// not refuses the host: a name that points outside and inside is an attack or a mistake.
func (p *Proxy) addresses(ctx context.Context, host string, rule nacre.EgressRule) (route, error) {
	if rule.Pin.IsValid() {
		return route{to: []netip.AddrPort{rule.Pin}}, nil
	}
	name, plain := target{host, rule.Port}, rule.Protocol == nacre.ProtocolHTTP
	if through := p.opts.Upstream.Through(name.host, name.port, plain); through != nil {
		return route{through: through, name: name, plain: plain}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := p.opts.Resolve(ctx, host)
	if err != nil || len(found) == 0 {
		return route{}, refusal(ReasonResolve, "the host has no address now")
	}
	for _, a := range found {
		if !address.Public(a) { // M-21
			return route{}, &reasonError{ReasonAddress, "the host resolves to an address that is not public; the operator may pin it in the config", a.String()}
		}
	}
	return route{to: outward.Turns(found, rule.Port)}, nil
}

// dial tries the checked addresses in order, and says which it reached.
func (p *Proxy) dial(ctx context.Context, by route) (net.Conn, string, error) {
	if by.through != nil {
		conn, err := by.through.Reach(ctx, by.name.host, by.name.port, by.plain)
		return conn, by.String(), err
	}
	err := errors.New("no address")
	for _, a := range by.to {
		var conn net.Conn
		attempt, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err = p.opts.Dial(attempt, a)
		cancel()
		if err == nil {
			return conn, a.String(), nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", err
}

// route is how a host is reached: one of the addresses that were checked, or a proxy
// that is told its name.
type route struct {
	to      []netip.AddrPort
	through *outward.Server
	name    target
	// plain says that the proxy is asked for a URL, and no tunnel.
	plain bool
}

// String is what a record says of it before it was taken.
func (r route) String() string {
	if r.through != nil {
		return r.through.Address()
	}
	return r.to[0].String()
}
