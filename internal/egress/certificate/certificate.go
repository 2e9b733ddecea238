// Package certificate makes the certificates that a sandbox is shown for hosts whose TLS is opened
// (M-22). They are an authority that is good for named hosts alone, and a certificate for one of
// them. The keys are in memory only.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

const (
	// authorityLife is how long a session's authority is valid. The key is gone
	// with the session, which is earlier.
	authorityLife = 30 * 24 * time.Hour
	// LeafLife is how long a host's certificate is valid.
	LeafLife = time.Hour
	// clockSkew is how far back certificates begin to be valid.
	clockSkew = 5 * time.Minute
)

// Authority signs certificates, and by its name constraints it is good for its hosts alone.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// New makes an authority for exactly these hosts, which are plain names in lower case.
func New(hosts []string, now time.Time) (Authority, error) {
	everything := []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
	return Authority{}.sign(&x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "nacre session authority"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts, ExcludedIPRanges: everything,
	})
}

// PEM is the authority's certificate, for the sandbox's list of authorities.
func (a Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Leaf makes a certificate for one of the hosts.
func (a Authority) Leaf(host string, now time.Time) (*tls.Certificate, error) {
	made, err := a.sign(&x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: commonName(host)}, DNSNames: []string{host},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(LeafLife), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{made.cert.Raw}, PrivateKey: made.key, Leaf: made.cert}, nil
}

// sign makes a key and a certificate of it; the zero authority signs its own.
func (a Authority) sign(template *x509.Certificate) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	if a.key == nil {
		a = Authority{key, template}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return Authority{key, cert}, err
}

// commonName is at most 64 bytes (RFC 5280, upper bounds); clients read the
// alternative name.
func commonName(host string) string { return host[:min(len(host), 64)] }

func serialNumber() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return new(big.Int).SetBytes(append([]byte{1}, raw[1:]...))
}
