package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"golang.org/x/net/publicsuffix"
)

const (
	maxHost  = 253
	maxLabel = 63
)

// target is a host and port in one canonical form. The zero value is none.
type target struct {
	host string
	port uint16
}

func (t target) valid() bool { return t.host != "" && t.port != 0 }

// parseAuthority reads host:port with exactly one spelling per host: DNS
// labels of letters, digits, - and _, in any case, which is folded. An
// address in any spelling, a trailing dot, user info, brackets, percent
// signs and other alphabets are refused. Without a port, standard is taken;
// standard 0 requires one.
func parseAuthority(s string, standard uint16) (target, error) {
	host, portText, hasPort := strings.Cut(s, ":")
	if strings.ContainsAny(s, "[]") || strings.Count(s, ":") > 1 {
		return target{}, refusal(ReasonIPLiteral, "name a host, not an address")
	}
	port := standard
	if hasPort {
		var err error
		if port, err = parsePort(portText); err != nil {
			return target{}, err
		}
	}
	if port == 0 {
		return target{}, refusal(ReasonTarget, "name the port: host:port")
	}
	host, err := canonicalHost(host)
	if err != nil {
		return target{}, err
	}
	return target{host, port}, nil
}

// parsePort accepts 1–65535 without sign, space or leading zero.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, refusal(ReasonTarget, "the port is a number from 1 to 65535")
	}
	return uint16(n), nil
}

func canonicalHost(s string) (string, error) {
	if s == "" || len(s) > maxHost {
		return "", refusal(ReasonTarget, "a host name has 1–253 characters")
	}
	if strings.HasSuffix(s, ".") {
		return "", refusal(ReasonTarget, "write the host without the dot at its end: the list has one spelling of each host")
	}
	host := lowerASCII(s)
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", refusal(ReasonTarget, "not a host name: letters, digits and dashes in dotted parts, other alphabets in punycode")
		}
	}
	if isNumeric(labels[len(labels)-1]) {
		return "", refusal(ReasonIPLiteral, "name a host, not an address")
	}
	return host, nil
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// isNumeric reports whether a last label makes resolvers read the whole name
// as an IPv4 address: 1, 127, 0x7f, 0177 (the WHATWG "ends in a number" rule).
func isNumeric(label string) bool {
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// ruleSet is the session's list, indexed by host.
type ruleSet map[string][]nacre.EgressRule

func newRuleSet(rules []nacre.EgressRule) (ruleSet, error) {
	set := ruleSet{}
	for _, r := range rules {
		if err := checkRule(r); err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.String(), err)
		}
		set[r.Host] = append(set[r.Host], r)
	}
	return set, nil
}

func checkRule(r nacre.EgressRule) error {
	name, wild := strings.CutPrefix(r.Host, "*.")
	host, err := canonicalHost(name)
	switch {
	case err != nil:
		return err
	case host != name:
		return errors.New("write the host in lower case")
	case wild && !strings.Contains(name, "."):
		return errors.New("a wildcard needs two parts after it, such as *.example.com")
	case wild && isRegistry(name):
		return errors.New("anyone can register a name below " + name + ": name a domain below it")
	case r.Port == 0:
		return errors.New("name a port from 1 to 65535")
	case r.Protocol > nacre.ProtocolTCP:
		return errors.New("unknown protocol: tls, http or tcp")
	case r.Pin != (nacre.EgressRule{}).Pin && (!r.Pin.IsValid() || r.Pin.Port() == 0):
		return errors.New("a pin is ADDRESS:PORT")
	}
	return nil
}

// isRegistry reports whether names right below a domain, such as co.uk, are
// sold to anyone, or are such domains themselves, as those below kawasaki.jp are.
func isRegistry(domain string) bool {
	for _, name := range []string{domain, "x." + domain} {
		if suffix, icann := publicsuffix.PublicSuffix(name); icann && suffix == name {
			return true
		}
	}
	return false
}

// match finds the rule for a target and one of the protocols. An exact host
// beats a wildcard, and a wildcard stands for exactly one label.
func (s ruleSet) match(t target, protocols ...nacre.Protocol) (nacre.EgressRule, Reason) {
	_, parent, _ := strings.Cut(t.host, ".")
	reason := ReasonNotListed
	for _, host := range []string{t.host, "*." + parent} {
		for _, r := range s[host] {
			if r.Port != t.port {
				continue
			}
			for _, p := range protocols {
				if r.Protocol == p {
					return r, ReasonListed
				}
			}
			reason = ReasonProtocol
		}
	}
	return nacre.EgressRule{}, reason
}
