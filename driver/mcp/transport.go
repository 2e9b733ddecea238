package mcpdriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"

	"github.com/nacre-dev/nacre/internal/mcptool"
)

// maxResponseHeader is in bytes.
const maxResponseHeader = 64 << 10

func (c *Client) transport(ctx context.Context) (mcp.Transport, error) {
	switch s := c.server; {
	case s.URL != "":
		return c.overHTTP()
	case s.Connect != nil:
		stream, err := s.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return c.overStream(stream), nil
	default:
		process, err := start(s)
		if err != nil {
			return nil, err
		}
		return c.overStream(process), nil
	}
}

func (c *Client) overStream(stream io.ReadWriteCloser) mcp.Transport {
	var once sync.Once
	c.stop = func() { once.Do(func() { _ = stream.Close() }) } // nobody is left who would act on it
	return &mcp.IOTransport{Reader: stream, Writer: &prompt{stream, c.server.Timeout}, MaxLineLength: MaxMessage}
}

// prompt bounds writes, where the stream can: a server that does not read must
// not hold a call for ever.
type prompt struct {
	io.WriteCloser
	timeout time.Duration
}

// Write implements io.Writer.
func (p *prompt) Write(data []byte) (int, error) {
	if stream, ok := p.WriteCloser.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if err := stream.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
			return 0, err
		}
	}
	return p.WriteCloser.Write(data)
}

func (c *Client) overHTTP() (mcp.Transport, error) {
	s := c.server
	endpoint, err := url.Parse(s.URL)
	switch {
	case err != nil || endpoint.Hostname() == "":
		return nil, errors.New("url: not usable")
	case endpoint.User != nil || endpoint.Fragment != "":
		return nil, errors.New("url: no user, password or fragment may stand in it; use Secrets")
	case endpoint.Scheme != "https" && (endpoint.Scheme != "http" || !s.Cleartext):
		return nil, errors.New("url: begin with https:// (http:// only with Cleartext)")
	}
	for name, value := range s.Secrets {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value.Reveal()) || value.Empty() {
			return nil, fmt.Errorf("header %.40q: not a usable name or value", name)
		}
	}
	next := s.Transport
	if next == nil {
		own := &http.Transport{
			TLSHandshakeTimeout: s.Timeout, ResponseHeaderTimeout: s.Timeout, IdleConnTimeout: s.Timeout,
			MaxResponseHeaderBytes: maxResponseHeader, DisableCompression: true, ForceAttemptHTTP2: true,
		}
		next, c.stop = own, own.CloseIdleConnections
	}
	return &mcp.StreamableClientTransport{
		Endpoint:             s.URL,
		HTTPClient:           &http.Client{Transport: &boundedTrip{next, s}, CheckRedirect: refuseRedirect},
		DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: MaxMessage,
	}, nil
}

func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("the server redirects; declare its new URL")
}

// boundedTrip carries requests with the operator's headers, cuts answers that are
// too long, and notes when a request may have been sent.
type boundedTrip struct {
	next   http.RoundTripper
	server Server
}

// RoundTrip implements http.RoundTripper.
func (b *boundedTrip) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if t, ok := ctx.Value(tripKey{}).(*trip); ok && t.carries() {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.sent.Store(true) }})
		if b.server.Transport != nil {
			t.sent.Store(true) // it need not tell
		}
	}
	own := request.Clone(ctx)
	for name, value := range b.server.Secrets {
		own.Header.Set(name, value.Reveal())
	}
	response, err := b.next.RoundTrip(own)
	if err != nil {
		return nil, err
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		_ = response.Body.Close() // the encoding is the error
		return nil, fmt.Errorf("the answer is encoded as %.20q, which was not asked for", encoding)
	}
	response.Body = mcptool.Bounded(response.Body, MaxMessage)
	return response, nil
}

// trip notes of one call whether its request had a connection to be written to.
type trip struct {
	ended func() error // why the call has ended, or nil
	begun atomic.Bool
	sent  atomic.Bool
}

// carries reports whether a request may be the call's. The notice that a call was
// given up is not: the SDK sends it when the call has ended, with its values.
func (t *trip) carries() bool {
	return !t.begun.Swap(true) || t.ended() == nil
}

type tripKey struct{}

func withTrip(ctx context.Context) (context.Context, *trip) {
	t := &trip{ended: ctx.Err}
	return context.WithValue(ctx, tripKey{}, t), t
}

// environment is what a command is given: nothing of this process's own.
func (s Server) environment() []string {
	all := slices.Clone(s.Env)
	for name, value := range s.SecretEnv {
		all = append(all, name+"="+value.Reveal())
	}
	if all == nil {
		return []string{} // nil would mean everything
	}
	return all
}
