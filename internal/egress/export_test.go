package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/leak"
	"github.com/nacre-dev/nacre/internal/sigv4"
	"github.com/nacre-dev/nacre/internal/unpack"
)

// ReadHello is readHello for the fuzz target.
func ReadHello(r io.Reader, host string) ([]byte, error) {
	return readHello(bufio.NewReader(r), host)
}

// SignedForTest is the signature of a request as the algorithm's published
// examples have it: host and date alone are signed.
func SignedForTest(method, where, region, service string, material func(context.Context) (Material, error), now time.Time) string {
	r, err := http.NewRequest(method, where, nil)
	if err != nil {
		return err.Error()
	}
	m, err := material(context.Background())
	if err != nil {
		return err.Error()
	}
	digest := sha256.Sum256(nil)
	r.Header.Set("X-Amz-Date", now.Format(sigv4.TimeLayout))
	_, signature, _ := strings.Cut(sigv4.Authorize(r, hex.EncodeToString(digest[:]), sigv4.Key{Access: m.AccessKey, Secret: m.Value, Region: region, Service: service}, now), "Signature=")
	return signature
}

// LeakScan searches a stream that comes in pieces of n bytes, and gives what of
// it may be passed on.
func LeakScan(secrets []string, stream []byte, n int) (clear []byte, found bool, most int) {
	s := leak.New(secrets)
	for len(stream) > 0 {
		piece := stream[:min(n, len(stream))]
		out, leaks := s.Feed(append([]byte(nil), piece...))
		if clear = append(clear, out...); leaks {
			return clear, true, most
		}
		most = max(most, len(s.Rest()))
		stream = stream[len(piece):]
	}
	return append(clear, s.Rest()...), false, most
}

// CheckTarget is splitTarget, for the fuzz target.
func CheckTarget(s string) (path string, err error) {
	path, _, err = splitTarget(s)
	return path, err
}

// Unpacked reads a body through a search that finds nothing, in pieces.
func Unpacked(body []byte, coding string, piece int) ([]byte, error) {
	nothing := func() (func([]byte) error, func()) { return func([]byte) error { return nil }, func() {} }
	b := &inspectedBody{from: io.NopCloser(pieces{bytes.NewReader(body), piece}), search: &unpack.Search{Inspect: nothing, Refuse: unsearchable, Deflated: coding == "deflate"}}
	have, err := io.ReadAll(b)
	return have, errors.Join(err, b.Close())
}

type pieces struct {
	io.Reader
	size int
}

// Read implements io.Reader.
func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }
