package config

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

const (
	// maxFile is the largest file that is read, in bytes.
	maxFile = 16 << 20
	// maxAuthorityFiles is how many such files may be named.
	maxAuthorityFiles = 16
)

// Authorities are the certificates of the files of ca, in PEM; empty where none is named.
func (e Egress) Authorities() (all []byte, err error) {
	if len(e.CA) > maxAuthorityFiles {
		return nil, fmt.Errorf("[egress] ca: at most %d files", maxAuthorityFiles)
	}
	for _, name := range e.CA {
		text, err := readAuthorities(name)
		if err != nil {
			return nil, fmt.Errorf("[egress] ca: %w; name files of certificates in PEM there, or take this one out", err)
		}
		all = append(append(all, text...), '\n')
	}
	return all, nil
}

// EnvironmentAuthorities are those of SSL_CERT_FILE, in PEM, which are trusted in place of the system's; nil where it is not set.
// One that names no certificate is an error: a library that leaves it out trusts whom the operator did not name.
func EnvironmentAuthorities(getenv func(string) string) ([]byte, error) {
	name := getenv("SSL_CERT_FILE")
	if name == "" {
		return nil, nil
	}
	text, err := readAuthorities(name)
	if err != nil {
		err = fmt.Errorf("SSL_CERT_FILE of the environment: %w; name a file of certificates in PEM there, or unset it to trust the system's authorities", err)
	}
	return text, err
}

// ReadFile reads a file of the operator's, where it is a regular one that is not too large.
func ReadFile(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) { // a pipe would be waited for
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, maxFile)
	}
	return os.ReadFile(name)
}

func readAuthorities(name string) ([]byte, error) {
	text, err := ReadFile(name)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if x509.NewCertPool().AppendCertsFromPEM(pem.EncodeToMemory(block)) {
			return text, nil // whoever trusts them reads the others: a system has some 140, and each start asks
		}
	}
	return nil, cmp.Or(err, fmt.Errorf("%s holds no certificate in PEM", name))
}

// Roots are whom the host trusts where it speaks TLS itself: the system's authorities and those of ca. nil means the system's alone.
func (e Egress) Roots() (*x509.CertPool, error) {
	own, err := e.Authorities()
	if err != nil || len(own) == 0 {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's authorities: %w", err)
	}
	pool.AppendCertsFromPEM(own)
	return pool, nil
}
