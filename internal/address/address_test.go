package address_test

import (
	"net/netip"
	"testing"

	"github.com/nacre-dev/nacre/internal/address"
)

// M-21, K-13: what is not plainly public is not public.
func TestOnlyPlainlyPublicAddressesArePublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.32.0.1": true, "2606:4700::1111": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.31.255.255": false, "192.168.0.1": false, "169.254.169.254": false,
		"168.63.129.16": false, "100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fd00::1": false, "ff02::1": false,
		"::ffff:8.8.8.8": false, "64:ff9b::808:808": false, "2002:808:808::1": false, "2001:0:1::1": false, "2001:db8::1": false,
	} {
		if have := address.Public(netip.MustParseAddr(text)); have != want {
			t.Errorf("%s: have %v, want %v", text, have, want)
		}
	}
	if address.Public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}
