package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/address"
)

const (
	// resolveTimeout bounds one look-up.
	resolveTimeout = 10 * time.Second
	// dialTimeout bounds the attempt at one address.
	dialTimeout = 10 * time.Second
	// maxAddresses is how many addresses of a host are tried.
	maxAddresses = 4
)

// checkAddress refuses every address that is not plainly public (M-21).
func checkAddress(a netip.Addr) error {
	if !address.Public(a) {
		return fmt.Errorf("%s is not a public address", a)
	}
	return nil
}

// addresses gives what may be dialled for a listed host: the pin, or what the
// host resolves to, all of which must be public. One address that is not
// refuses the host: a name that points outside and inside is an attack or a mistake.
func (p *Proxy) addresses(ctx context.Context, host string, rule nacre.EgressRule) ([]netip.AddrPort, error) {
	if rule.Pin.IsValid() {
		return []netip.AddrPort{rule.Pin}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := p.opts.Resolve(ctx, host)
	if err != nil || len(found) == 0 {
		return nil, refusal(ReasonResolve, "the host has no address now")
	}
	for _, a := range found {
		if err := checkAddress(a); err != nil {
			return nil, &reasonError{ReasonAddress, "the host resolves to an address that is not public; the operator may pin it in the config", a.String()}
		}
	}
	return candidates(found, rule.Port), nil
}

// candidates are the addresses to try, of both families in turn: a machine may
// have a way out in one of them only.
func candidates(found []netip.Addr, port uint16) []netip.AddrPort {
	var four, six, turns []netip.AddrPort
	for _, a := range found {
		if a.Is4() {
			four = append(four, netip.AddrPortFrom(a, port))
		} else {
			six = append(six, netip.AddrPortFrom(a, port))
		}
	}
	for i := range max(len(four), len(six)) {
		turns = append(append(turns, four[min(i, len(four)):min(i+1, len(four))]...), six[min(i, len(six)):min(i+1, len(six))]...)
	}
	return turns[:min(len(turns), maxAddresses)]
}

// dial tries the checked addresses in order, and says which it reached.
func (p *Proxy) dial(ctx context.Context, to []netip.AddrPort) (net.Conn, netip.AddrPort, error) {
	err := errors.New("no address")
	for _, a := range to {
		var conn net.Conn
		attempt, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err = p.opts.Dial(attempt, a)
		cancel()
		if err == nil {
			return conn, a, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, err
}

// systemResolve asks for both families by name, so that an IPv4 address that
// was mapped into IPv6 by the resolver's record is told from one mapped by Go.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	four, err4 := net.DefaultResolver.LookupNetIP(ctx, "ip4", host+".")
	for _, a := range four {
		all = append(all, a.Unmap())
	}
	six, err6 := net.DefaultResolver.LookupNetIP(ctx, "ip6", host+".")
	all = append(all, six...)
	if len(all) == 0 {
		return nil, errors.Join(err4, err6)
	}
	return all, nil
}

func systemDial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}
