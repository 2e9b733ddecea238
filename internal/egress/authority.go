package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/egress/certificate"
)

// Authority signs the certificates that a sandbox is shown for hosts whose TLS
// is opened (M-22). Its key is in memory only, and by its name constraints it
// is good for those hosts alone. It is safe for concurrent use.
type Authority struct {
	root  certificate.Authority
	hosts []string
	now   func() time.Time

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewAuthority makes the authority of one session for exactly these hosts.
func NewAuthority(hosts []string, now func() time.Time) (*Authority, error) {
	if len(hosts) == 0 || now == nil {
		return nil, errors.New("egress: an authority needs hosts and a clock")
	}
	for _, host := range hosts {
		if name, err := canonicalHost(host); err != nil || name != host {
			return nil, fmt.Errorf("egress: an authority for %q: write the host in lower case, and no wildcard", host)
		}
	}
	root, err := certificate.New(hosts, now())
	return &Authority{root: root, hosts: slices.Clone(hosts), now: now, leaves: map[string]*tls.Certificate{}}, err
}

// PEM is the authority's certificate, for the sandbox's list of authorities.
func (a *Authority) PEM() []byte { return a.root.PEM() }

// leaf gives a certificate for one of the hosts, which is made anew at half of its life.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	if !slices.Contains(a.hosts, host) {
		return nil, refusal(ReasonSNIMismatch, "the authority is not for this host")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf := a.leaves[host]; leaf != nil && a.now().Before(leaf.Leaf.NotAfter.Add(-certificate.LeafLife/2)) {
		return leaf, nil
	}
	leaf, err := a.root.Leaf(host, a.now())
	if err == nil {
		a.leaves[host] = leaf
	}
	return leaf, err
}
