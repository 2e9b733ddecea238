package outward

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// maxAddresses is how many addresses of a host are tried.
const maxAddresses = 4

// Turns are the addresses to try, of both families in turn: a machine may
// have a way out in one of them only.
func Turns(found []netip.Addr, port uint16) []netip.AddrPort {
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

// Resolve asks the system for both families by name, so that an IPv4 address that
// was mapped into IPv6 by the resolver's record is told from one mapped by Go.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
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

// Direct connects to an address, without a proxy.
func Direct(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}
