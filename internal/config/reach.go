package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// maxServices of this machine that a session may reach.
const maxServices = 32

// localHost is the host of each service of this machine, in rules and questions.
const localHost = "localhost"

// Service is a service of this machine that a session may reach at the same address
// inside (U-06).
type Service struct {
	// Host is localhost, 127.0.0.1 or ::1.
	Host string
	Port uint16
	// Ask asks a person before the first connection.
	Ask bool
}

// Rule is what lets the service through. Its pin is tried first.
func (s Service) Rule() nacre.EgressRule {
	return nacre.EgressRule{Host: localHost, Port: s.Port, Protocol: nacre.ProtocolTCP, Pin: s.Addresses()[0]}
}

// Addresses are where the service is looked for, in order.
func (s Service) Addresses() []netip.AddrPort {
	four := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), s.Port)
	six := netip.AddrPortFrom(netip.IPv6Loopback(), s.Port)
	switch s.Host {
	case "127.0.0.1":
		return []netip.AddrPort{four}
	case "::1":
		return []netip.AddrPort{six}
	}
	return []netip.AddrPort{four, six}
}

func (s Service) String() string {
	host := s.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(s.Port))
}

// parseService reads HOST:PORT, where the host is this machine's loopback.
func parseService(text string) (Service, error) {
	for _, host := range []string{localHost, "127.0.0.1", "[::1]"} {
		port, is := strings.CutPrefix(text, host+":")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port != strconv.FormatUint(n, 10) {
			return Service{}, fmt.Errorf("%.80q: the port is a number from 1 to 65535", text)
		}
		if n == nacre.EgressPort || n == nacre.ModelPort {
			return Service{}, fmt.Errorf("%q: port %d inside is nacre's own", text, n)
		}
		return Service{Host: strings.Trim(host, "[]"), Port: uint16(n)}, nil
	}
	return Service{}, fmt.Errorf("%.80q is not a service of this machine: write localhost:PORT, 127.0.0.1:PORT or [::1]:PORT; --egress is for other hosts", text)
}

// Services are what a session may reach of this machine: what is named, and after a
// question what the config lists.
func (e Egress) Services(named []string) ([]Service, error) {
	var all []Service
	for i, text := range slices.Concat(named, e.Reach) {
		where := "--reach"
		if i >= len(named) {
			where = "[egress] reach"
		}
		s, err := parseService(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if s.Ask = i >= len(named); !slices.ContainsFunc(all, func(other Service) bool { return other.Port == s.Port }) {
			all = append(all, s)
		}
	}
	if len(all) > maxServices {
		return nil, fmt.Errorf("a session reaches at most %d services of this machine", maxServices)
	}
	return all, nil
}

// Reaches reports whether a rule is for a service of this machine that the config lists.
func (e Egress) Reaches(rule nacre.EgressRule) bool { return e.service(rule) != nacre.EgressRule{} }

// service is the rule of a listed service, with its pin.
func (e Egress) service(rule nacre.EgressRule) nacre.EgressRule {
	services, err := e.Services(nil)
	if err != nil {
		return nacre.EgressRule{} // the config was refused before anything began
	}
	for _, s := range services {
		known := s.Rule()
		rule.Pin = known.Pin
		if rule == known {
			return known
		}
	}
	return nacre.EgressRule{}
}
