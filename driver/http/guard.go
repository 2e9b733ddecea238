package httpdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre/internal/address"
)

// maxAddresses is how many addresses of a host are tried.
const maxAddresses = 4

// guard dials the addresses that it has itself looked up and checked, so that
// a name cannot mean one address when checked and another when dialled.
type guard struct {
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	allow   []netip.Prefix
	timeout time.Duration
}

func (g guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %.20q: use 1–65535", portText)
	}
	found, err := g.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: g.timeout}
	var conn net.Conn
	for _, a := range found {
		conn, err = dialer.DialContext(ctx, network, netip.AddrPortFrom(a, uint16(number)).String())
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return conn, err
}

// addresses gives what a host resolves to. One address that may not be dialled
// refuses the host: a name that leads outside and inside is an attack or a mistake.
func (g guard) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	var found []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		found = []netip.Addr{literal}
	} else {
		within, cancel := context.WithTimeout(ctx, g.timeout)
		defer cancel()
		if found, err = g.resolve(within, host); err != nil {
			return nil, fmt.Errorf("look up %s: %w", host, err)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the host has no address now")
	}
	for _, a := range found {
		if !g.allowed(a) && !address.Public(a) {
			return nil, fmt.Errorf("%s is at %s, which is not a public address: allow it in the driver's options if it is meant", host, a)
		}
	}
	return found[:min(len(found), maxAddresses)], nil
}

func (g guard) allowed(a netip.Addr) bool {
	for _, p := range g.allow {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// systemResolve asks for both families by name, so that an IPv4 address which
// the resolver's record maps into IPv6 is told from one that Go maps.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	four, err4 := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	all := make([]netip.Addr, 0, len(four))
	for _, a := range four {
		all = append(all, a.Unmap())
	}
	six, err6 := net.DefaultResolver.LookupNetIP(ctx, "ip6", host)
	all = append(all, six...)
	if len(all) == 0 {
		return nil, errors.Join(err4, err6)
	}
	return all, nil
}
