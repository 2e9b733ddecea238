package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/nacre-dev/nacre/internal/sigv4"
)

const (
	// maxSigned is the largest body that is held in memory to sign it, in bytes.
	maxSigned = 16 << 20
	// maxBuffered is what all such bodies of a session may take at once, in bytes.
	maxBuffered = 128 << 20
)

// sign holds the body and signs the request that is sent: its method, path,
// query, host and the headers that have a meaning to the service.
func (o *opened) sign(q *order, m Material, held *memory) error {
	r := q.request
	if strings.Contains(lowerASCII(strings.Join(r.Header["Content-Encoding"], ",")), "aws-chunked") {
		return refusal(ReasonMalformed, "a body in aws-chunked coding is signed by its sender: turn it off, as AWS_REQUEST_CHECKSUM_CALCULATION=when_required does")
	}
	body, err := hold(q, held)
	if err != nil {
		return err
	}
	r.ContentLength, r.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	c := q.credential
	sigv4.Sign(r, body, sigv4.Key{Access: m.AccessKey, Secret: m.Value, Token: m.SessionToken, Region: c.Region, Service: c.Service}, o.proxy.opts.Now())
	return nil
}

// hold reads the whole body, as far as there is room.
func hold(q *order, held *memory) ([]byte, error) {
	defer func() { _ = q.request.Body.Close() }() // ends what looks into it
	var body bytes.Buffer
	for body.Len() <= maxSigned {
		if err := held.take(bufferSize); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&body, q.request.Body, bufferSize)
		if n < bufferSize && err == io.EOF { //nolint:errorlint // CopyN's own
			return body.Bytes(), nil
		}
		var found *reasonError
		if errors.As(err, &found) {
			return nil, err
		}
		if err != nil {
			return nil, refusal(ReasonMalformed, "the body did not come whole")
		}
	}
	return nil, refusal(ReasonTooLarge, "a body that is signed has at most 16 MiB")
}
