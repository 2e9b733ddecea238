package posture

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Fetching is how a toolchain gets packages from a network, which it does where the
// session's egress leads to whom it asks (F-118).
type Fetching struct {
	// From is the server that is asked first, as a URL, or "direct" for the servers that
	// packages themselves name.
	From string
	// Open are the variables of a session that reaches From, and Closed of all others.
	Open, Closed []string
	// Caches hold what the host has fetched: read-only, or with a layer over them that
	// ends with the session where it may fetch.
	Caches []nacre.Mount
}

func (f Fetching) environment(in Input) []string {
	if f.open(in) {
		return f.Open
	}
	return f.Closed
}

func (f Fetching) mounts(in Input) []nacre.Mount {
	if !f.open(in) {
		return f.Caches
	}
	layered := slices.Clone(f.Caches)
	for i := range layered {
		layered[i].Kind, layered[i].Size = nacre.Overlay, cacheSize
	}
	return layered
}

// open tells whether the egress leads to whom the toolchain asks first.
func (f Fetching) open(in Input) bool {
	if in.Offline || len(in.Egress) == 0 {
		return false
	}
	if f.From == "direct" {
		return true
	}
	server, err := url.Parse(f.From)
	if err != nil || server.Host == "" {
		return false
	}
	return slices.ContainsFunc(in.Egress, func(r nacre.EgressRule) bool { return leadsTo(r, server) })
}

// leadsTo tells whether a rule lets a server's URL be asked.
func leadsTo(r nacre.EgressRule, server *url.URL) bool {
	protocol, port := nacre.ProtocolTLS, "443"
	switch server.Scheme {
	case "https":
	case "http":
		protocol, port = nacre.ProtocolHTTP, "80"
	default:
		return false
	}
	if server.Port() != "" {
		port = server.Port()
	}
	host := strings.ToLower(server.Hostname())
	_, parent, _ := strings.Cut(host, ".")
	return r.Protocol == protocol && strconv.Itoa(int(r.Port)) == port && (r.Host == host || r.Host == "*."+parent)
}
