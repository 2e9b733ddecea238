package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of one fetch.
const (
	maxTime      = 25 * time.Second // with all redirects; the host waits 30 s
	headTime     = 10 * time.Second
	maxHead      = 64 << 10 // bytes of an answer's headers
	maxRedirects = 5
	maxBody      = 4 << 20  // bytes of a body, as it comes and once more decoded
	maxContent   = 96 << 10 // bytes that are told: a string on the wire has at most 100 KiB
	maxBase64    = 72 << 10 // bytes that are told in base64
	maxValue     = 500      // bytes of a header that is told
	maxWorking   = 8        // fetches at once
)

const userAgent = "nacre-http_fetch/1.0"

var errNoProxy = errors.New("no proxy")

type fetchArgs struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Max     int               `json:"max_bytes"`
	As      string            `json:"as"`
}

// page is what http_fetch tells.
type page struct {
	URL       string            `json:"url"` // after redirects
	Status    int               `json:"status"`
	Redirects []string          `json:"redirects,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Type      string            `json:"content_type,omitempty"`
	Title     string            `json:"title,omitempty"`
	// Content is the text; JSON and Base64 stand in its place where asked for.
	Content string          `json:"content,omitempty"`
	JSON    json.RawMessage `json:"json,omitempty"`
	Base64  string          `json:"content_base64,omitempty"`
	// Bytes is how many were read; Truncated says that there is more.
	Bytes     int    `json:"bytes"`
	Truncated bool   `json:"truncated,omitempty"`
	Hint      string `json:"hint,omitempty"`
}

type fetcher struct {
	transport http.RoundTripper
	working   chan struct{}
}

func (f *fetcher) fetch(ctx context.Context, _ *plugin.Request, args fetchArgs) (any, error) {
	u, err := parseAddress(args.URL)
	if err != nil {
		return nil, err
	}
	head, err := headers(args)
	if err != nil {
		return nil, err
	}
	select {
	case f.working <- struct{}{}:
		defer func() { <-f.working }()
	default:
		return nil, later("BUSY", "Too many pages are fetched at once: try again")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	p := page{}
	resp, err := f.follow(ctx, u, head, args.Method, &p)
	if err != nil {
		return nil, err
	}
	err = p.read(resp, args)
	return p, errors.Join(failed(err, resp.Request.URL), resp.Body.Close())
}

// allowed are the headers that a call may set, in the form that is sent.
func allowed(name string) bool {
	switch name {
	case "Accept", "Accept-Language", "If-None-Match", "If-Modified-Since", "Range":
		return true
	}
	return false
}

func headers(args fetchArgs) (http.Header, error) {
	if args.Method != "" && args.Method != http.MethodGet && args.Method != http.MethodHead {
		return nil, refuse("METHOD", "Only GET and HEAD are asked")
	}
	h := http.Header{"User-Agent": {userAgent}, "Accept-Encoding": {"gzip, deflate"}, "Accept": {"text/html, text/markdown, text/plain, application/json, */*;q=0.5"}}
	for name, value := range args.Headers {
		name = http.CanonicalHeaderKey(name)
		if !allowed(name) || len(value) > maxValue || !httpguts.ValidHeaderFieldValue(value) {
			return nil, refuse("HEADER", "%.40q cannot be sent: Accept, Accept-Language, If-None-Match, If-Modified-Since and Range can, with values of at most %d bytes", name, maxValue)
		}
		h.Set(name, value)
	}
	return h, nil
}

// follow asks, and goes where it is sent, each time through the proxy.
func (f *fetcher) follow(ctx context.Context, u *url.URL, head http.Header, method string, p *page) (*http.Response, error) {
	for {
		resp, err := f.ask(ctx, u, head, method)
		if err != nil {
			return nil, failed(err, u)
		}
		p.URL, p.Status = u.String(), resp.StatusCode
		place := resp.Header.Get("Location")
		if !isRedirect(resp.StatusCode) || place == "" {
			return resp, denied(resp.Header, u, resp.StatusCode, resp.Body.Close)
		}
		if err := resp.Body.Close(); err != nil {
			return nil, failed(err, u)
		}
		next, err := redirected(u, place, p)
		if err != nil {
			return nil, err
		}
		u = next
	}
}

func (f *fetcher) ask(ctx context.Context, u *url.URL, head http.Header, method string) (*http.Response, error) {
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header = head.Clone()
	return f.transport.RoundTrip(r)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func redirected(from *url.URL, place string, p *page) (*url.URL, error) {
	if p.Redirects = append(p.Redirects, from.String()); len(p.Redirects) > maxRedirects {
		return nil, refuse("REDIRECTS", "The page leads on more than %d times", maxRedirects)
	}
	to, err := from.Parse(place)
	if err != nil || len(place) > maxAddress {
		return nil, refuse("REDIRECTS", "The page leads to what is no URL")
	}
	next, err := parseAddress(to.String())
	var why *plugin.ToolError
	if errors.As(err, &why) {
		return nil, refuse(why.Code, "The page at %s leads on, and is not followed: %s", from.Host, why.Message)
	}
	if err == nil && from.Scheme == "https" && next.Scheme == "http" {
		return nil, refuse("REDIRECTS", "The page at %s leads from https to http: fetch %.200s yourself if that is right", from.Host, next)
	}
	return next, err
}

// reasonHeader is in every refusal of the proxy.
const reasonHeader = "X-Nacre-Reason"

// proxyError is a refusal of the proxy before a tunnel stood.
type proxyError struct {
	header http.Header
	status int
}

func (*proxyError) Error() string { return "refused by the proxy" }

func refusedConnect(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{resp.Header, resp.StatusCode}
}

// denied says what the proxy refused; where it did not, it is nil.
func denied(h http.Header, u *url.URL, status int, end func() error) error {
	reason := h.Get(reasonHeader)
	if reason == "" {
		return nil
	}
	err := reasonError(reason, u, status)
	return errors.Join(err, end())
}

func reasonError(reason string, u *url.URL, status int) error {
	switch {
	case reason == "not_listed" || reason == "protocol_not_listed":
		return refuse("HOST_DENIED", "%s is not among the hosts that may be fetched from: the operator can add %q to hosts in [access.http_fetch]", u.Host, hostPort(u))
	case reason == "address_refused" || reason == "ip_literal":
		return refuse("PRIVATE", "%s leads to an address of this machine or its own network: it cannot be fetched", u.Host)
	case status == http.StatusBadGateway || reason == "timeout":
		return later("NOT_REACHED", "%s is allowed, and was not reached", u.Host)
	case status == http.StatusServiceUnavailable || reason == "bytes_exhausted" || reason == "connections_exhausted":
		return later("BUSY", "Nothing more can be fetched now")
	}
	return refuse("DENIED", "The request to %s was refused on its way out", u.Host)
}

// failed puts a failure into words; what a library said is not among them.
func failed(err error, u *url.URL) error {
	var known *plugin.ToolError
	var proxy *proxyError
	var network net.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, errNoProxy):
		return refuse("HOST_DENIED", "No host may be fetched from: the operator can add %q to hosts in [access.http_fetch]", hostPort(u))
	case errors.As(err, &proxy):
		return reasonError(proxy.header.Get(reasonHeader), u, proxy.status)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &network) && network.Timeout():
		return later("TIMEOUT", "%s took too long", u.Host)
	case isCertificate(err):
		return refuse("CERTIFICATE", "The certificate of %s was not accepted", u.Host)
	}
	return later("NOT_REACHED", "%s was not reached, or its answer could not be read", u.Host)
}

// told are the headers of an answer that matter to a caller.
func told(h http.Header) map[string]string {
	found := map[string]string{}
	for _, name := range []string{"Etag", "Last-Modified", "Content-Length", "Content-Range", "Content-Language", "Retry-After", "Location", "Date"} {
		if value := h.Get(name); value != "" {
			found[strings.ToLower(name)] = clean(strings.ToValidUTF8(value[:min(len(value), maxValue)], "�"))
		}
	}
	return found
}

// encode tells bytes as they are.
func (p *page) encode(body []byte, limit int) {
	if limit = min(limit, maxBase64); len(body) > limit {
		body, p.Truncated = body[:limit], true
	}
	p.Base64 = base64.StdEncoding.EncodeToString(body)
}
