package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// dialOnly dials the sink, whatever public address was checked, and fails the test for any other.
func dialOnly(t testing.TB, sink netip.AddrPort) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if to != sink && to.Addr() != netip.MustParseAddr("93.184.216.34") {
			t.Errorf("LET THROUGH: dialled %s", to)
			return nil, errors.New("not the sink")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", sink.String())
	}
}
