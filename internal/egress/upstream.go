package egress

import "github.com/nacre-dev/nacre/internal/outward"

type (
	// Upstream are the proxies of a company.
	Upstream = outward.Proxies
	// UpstreamOptions are what they are made of.
	UpstreamOptions = outward.Options
)

// NewUpstream reads the proxies; nil where none is named.
func NewUpstream(o UpstreamOptions) (*Upstream, error) { return outward.New(o) }
