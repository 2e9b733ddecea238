// Package stream promises the one connection between a sandbox's pod and the host that it works for
// . The pod dials it, each end proves who it is before a byte of either is believed, and it
// carries many streams.
//
// Both know the pod's key, which is made of the pool's secret and the pod's UID. From it
// each end makes the two keys that sign, its own and the other one's, and takes no other:
// TLS 1.3 with certificates that are pinned, and no authority. A pod can speak for
// itself alone, and nobody who does not know the pool's secret can be its host.
package stream

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// MinSecret is the shortest secret of a pool, in bytes.
const MinSecret = 32

// HandshakeTimeout is how long either end may take to prove who it is.
const HandshakeTimeout = 10 * time.Second

// Key is one pod's, 32 bytes.
type Key []byte

// KeyOf is the key of the pod with this UID in a pool with this secret.
func KeyOf(secret []byte, uid string) (Key, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the pool's secret has %d bytes: it takes %d at least", len(secret), MinSecret)
	}
	if uid == "" {
		return nil, errors.New("the pod's UID is empty")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("nacre pod " + uid))
	return mac.Sum(nil), nil
}

// Dial proves to the host at address that this is the pod with the key, has it prove that
// it is that pod's host, and returns the pod's end.
func Dial(ctx context.Context, address string, key Key) (*yamux.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	config, err := key.config("pod", "host")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return yamux.Client(secured, settings())
}

// Accept is Dial's other end: it takes what was accepted, and returns the host's.
func Accept(ctx context.Context, conn net.Conn, key Key) (*yamux.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	config, err := key.config("host", "pod")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	config.ClientAuth = tls.RequireAnyClientCert
	secured := tls.Server(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return yamux.Server(secured, settings())
}

// settings bound what one end can make the other keep: as many streams as wait to be
// accepted, each with one window.
func settings() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 128
	c.StreamCloseTimeout = 0 // an answer may take longer than its request was open
	c.ConnectionWriteTimeout = 30 * time.Second
	c.LogOutput = io.Discard
	return c
}

// config is TLS between the two that share the key.
func (k Key) config(own, other string) (*tls.Config, error) {
	private, err := k.signer(own)
	if err != nil {
		return nil, err
	}
	expected, err := k.signer(other)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: own},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}},
		// There is no authority to ask: VerifyConnection takes one key and no other.
		InsecureSkipVerify:     true, //nolint:gosec // pinned below
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 {
				return errors.New("it shows no certificate, or several: refused")
			}
			shown, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || !shown.Equal(expected.Public()) {
				return fmt.Errorf("it is not this pod's %s: refused", other)
			}
			return nil
		},
	}, nil
}

func (k Key) signer(role string) (ed25519.PrivateKey, error) {
	if len(k) != sha256.Size {
		return nil, fmt.Errorf("a pod's key has %d bytes, not %d", len(k), sha256.Size)
	}
	seed, err := hkdf.Key(sha256.New, k, nil, "nacre stream "+role, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
