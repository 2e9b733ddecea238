package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// authorityLife is how long a session's authority is valid. The key is gone
	// with the session, which is earlier.
	authorityLife = 30 * 24 * time.Hour
	// leafLife is how long a host's certificate is valid; it is made anew at half of it.
	leafLife = time.Hour
	// clockSkew is how far back certificates begin to be valid.
	clockSkew = 5 * time.Minute
)

// Authority signs the certificates that a sandbox is shown for hosts whose TLS
// is opened (M-22). Its key is in memory only, and by its name constraints it
// is good for those hosts alone. It is safe for concurrent use.
type Authority struct {
	hosts []string
	now   func() time.Time
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate

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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	everything := []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "nacre session authority"},
		NotBefore: now().Add(-clockSkew), NotAfter: now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts, ExcludedIPRanges: everything,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{hosts: slices.Clone(hosts), now: now, key: key, cert: cert, leaves: map[string]*tls.Certificate{}}, nil
}

// PEM is the authority's certificate, for the sandbox's list of authorities.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// leaf gives a certificate for one of the hosts.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	if !slices.Contains(a.hosts, host) {
		return nil, refusal(ReasonSNIMismatch, "the authority is not for this host")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf := a.leaves[host]; leaf != nil && a.now().Before(leaf.Leaf.NotAfter.Add(-leafLife/2)) {
		return leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: commonName(host)}, DNSNames: []string{host},
		NotBefore: a.now().Add(-clockSkew), NotAfter: a.now().Add(leafLife), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}
	a.leaves[host] = leaf
	return leaf, nil
}

// commonName is at most 64 bytes (RFC 5280, upper bounds); clients read the
// alternative name.
func commonName(host string) string { return host[:min(len(host), 64)] }

func serialNumber() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return new(big.Int).SetBytes(append([]byte{1}, raw[1:]...))
}
