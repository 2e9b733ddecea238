package posture

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/nacre-dev/nacre"
)

// IsWildcard tells a rule's text that ParseWildcard reads, and ParseEgress refuses.
func IsWildcard(s string) bool { return strings.HasPrefix(s, "*.") }

// ParseWildcard reads *.HOST:PORT as ParseEgress reads HOST:PORT. The star
// stands for exactly one label: *.example.com is a.example.com, and neither
// example.com nor a.b.example.com. A domain below which anyone can have a name,
// such as co.uk or github.io, is refused (M-20). Whether the operator has
// confirmed it is not known here.
func ParseWildcard(s string) (nacre.EgressRule, error) {
	rest, wild := strings.CutPrefix(s, "*.")
	if !wild {
		return nacre.EgressRule{}, fmt.Errorf("egress %q: write *.example.com, with a port where it is not 443", s)
	}
	rule, err := ParseEgress(rest)
	if err != nil {
		return nacre.EgressRule{}, fmt.Errorf("egress %q: %w", s, err)
	}
	if err := checkWildcard(rule.Host); err != nil {
		return nacre.EgressRule{}, fmt.Errorf("egress %q: %w", s, err)
	}
	rule.Host = "*." + rule.Host
	return rule, nil
}

func checkWildcard(domain string) error {
	if !strings.Contains(domain, ".") {
		return errors.New("a wildcard needs two parts after it, such as *.example.com")
	}
	// What a registry sells names below, and what itself lies right below a rule
	// such as *.ck, is anyone's.
	for _, name := range []string{domain, "x." + domain} {
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			return fmt.Errorf("anyone can have a name below %s: name a domain below it", domain)
		}
	}
	return nil
}

// Loopback tells the names that lead to the machine itself, and nowhere else (RFC 6761).
func Loopback(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Inside tells the names that lead into a network and never out of one, which nobody is asked to
// allow (M-23). They are names of one part, and the domains that are kept for machines nearby (RFC
// 6761, 6762, 8375, 9476).
func Inside(host string) bool {
	if !strings.Contains(host, ".") {
		return true
	}
	for _, domain := range []string{"localhost", "local", "internal", "lan", "intranet", "private", "corp", "home", "home.arpa", "in-addr.arpa", "ip6.arpa", "alt", "onion"} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}
