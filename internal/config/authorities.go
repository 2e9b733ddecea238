package config

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

const (
	// maxAuthorities is the largest file of authorities that is read, in bytes.
	maxAuthorities = 16 << 20
	// maxAuthorityFiles is how many such files may be named.
	maxAuthorityFiles = 16
)

// Authorities are the certificates of the files of ca, in PEM; empty where none is named.
func (e Egress) Authorities() ([]byte, error) {
	if len(e.CA) > maxAuthorityFiles {
		return nil, fmt.Errorf("[egress] ca: at most %d files", maxAuthorityFiles)
	}
	var all bytes.Buffer
	for _, name := range e.CA {
		text, err := readAuthorities(name)
		if err != nil {
			return nil, fmt.Errorf("[egress] ca: %w", err)
		}
		_, _ = all.Write(append(text, '\n')) // a buffer takes all
	}
	return all.Bytes(), nil
}

func readAuthorities(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxAuthorities+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAuthorities:
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxAuthorities)
	case !x509.NewCertPool().AppendCertsFromPEM(text):
		return nil, fmt.Errorf("%s holds no certificate in PEM", name)
	}
	return text, nil
}

// Roots are whom the host trusts where it speaks TLS itself: the system's authorities and
// those of ca. It is nil, which means the system's, where none is named.
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
