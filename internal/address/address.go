// Package address promises to tell a plainly public address from every other:
// one list for all that dial on somebody's behalf (M-21, K-13).
//
// It does not resolve names and dials nothing.
package address

import "net/netip"

// notPublic are the blocks inside global unicast space that lead inside, to
// nobody, or to another address (IANA special-purpose registries, and the one
// cloud metadata service on a public address).
var notPublic = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32",
	// Of IPv6 only 2000::/3 is routed; these parts of it lead elsewhere:
	// Teredo and other protocol assignments, documentation, 6to4, AS112, 6bone.
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20",
)

// routedIPv6 is all of IPv6 that is global unicast.
var routedIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(blocks ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(blocks))
	for i, b := range blocks {
		list[i] = netip.MustParsePrefix(b)
	}
	return list
}

// Public reports whether an address is plainly public: not loopback, private,
// link-local, shared, metadata, multicast, unspecified, mapped, translated or
// reserved. The zero address is not.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || (a.Is6() && !routedIPv6.Contains(a)) {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
