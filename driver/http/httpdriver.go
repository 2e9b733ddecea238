// Package httpdriver promises that a capability reaches one HTTP endpoint which the operator
// declared, and nothing else (K-13). The arguments of a call fill places in its path, query and
// body and can never change its scheme, host, method or headers. Addresses are checked before they
// are dialled, and time and size are bounded. What comes back is JSON or an error. An error says
// whether the request may have been sent ([nacre.IsNotSent]).
//
// It does not decide who may call, does not retry, keeps no cookies, and reads
// no proxy from the environment. What a service answers is untrusted.
package httpdriver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
)

// The limits of a call where Options say nothing else.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultHeaderTimeout  = 20 * time.Second
	DefaultTimeout        = 30 * time.Second
	// DefaultMaxResponse is in bytes.
	DefaultMaxResponse = 1 << 20

	maxResponseHeader = 64 << 10
	maxRedirects      = 3
	maxIdle           = 4
	idleTimeout       = 30 * time.Second
	// maxURL is the longest URL that arguments can make, in bytes.
	maxURL = 16 << 10
)

// Options bound what a driver does. The zero value is the strictest that is useful.
type Options struct {
	// ConnectTimeout bounds looking the host up, dialling and the TLS handshake,
	// each; HeaderTimeout the wait for the answer to begin; Timeout all of a call.
	// Zero means the defaults.
	ConnectTimeout, HeaderTimeout, Timeout time.Duration
	// MaxResponse is the largest body of an answer, in bytes; zero means DefaultMaxResponse.
	MaxResponse int
	// Allow lists addresses that may be dialled though they are not public, such
	// as 127.0.0.1/32 for a service on this host.
	Allow []netip.Prefix
	// Cleartext allows endpoints of the scheme http.
	Cleartext bool
	// Proxy chooses a proxy for a request, such as http.ProxyFromEnvironment; nil
	// means none. Through a proxy only the proxy's own address is checked: it is
	// the proxy that looks the endpoint's host up.
	Proxy func(*http.Request) (*url.URL, error)
	// RootCAs verify the endpoint; nil means the system's.
	RootCAs *x509.CertPool
	// Resolve looks a host up; nil means the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.ConnectTimeout < 0 || o.HeaderTimeout < 0 || o.Timeout < 0 || o.MaxResponse < 0 {
		return o, errors.New("a limit is negative: use a positive one, or zero for the default")
	}
	for _, d := range []struct {
		at      *time.Duration
		usually time.Duration
	}{{&o.ConnectTimeout, DefaultConnectTimeout}, {&o.HeaderTimeout, DefaultHeaderTimeout}, {&o.Timeout, DefaultTimeout}} {
		if *d.at == 0 {
			*d.at = d.usually
		}
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	if o.Resolve == nil {
		o.Resolve = systemResolve
	}
	return o, nil
}

// Driver is a nacre.Driver for one endpoint. It is safe for concurrent use.
type Driver struct {
	endpoint    *endpoint
	client      *http.Client
	timeout     time.Duration
	maxResponse int
}

var _ nacre.Driver = (*Driver)(nil)

// New checks an endpoint and makes a driver for it; nothing is dialled before Do.
func New(e Endpoint, o Options) (*Driver, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("http driver: %w", err)
	}
	checked, err := e.check(o.Cleartext)
	if err != nil {
		return nil, fmt.Errorf("http driver: %w", err)
	}
	guard := guard{resolve: o.Resolve, allow: o.Allow, timeout: o.ConnectTimeout}
	transport := &http.Transport{
		Proxy: o.Proxy, DialContext: guard.dial, TLSHandshakeTimeout: o.ConnectTimeout,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		ResponseHeaderTimeout: o.HeaderTimeout, MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
		DisableCompression: true, // what is not unpacked cannot be a bomb
		ForceAttemptHTTP2:  true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return &Driver{endpoint: checked, client: client, timeout: o.Timeout, maxResponse: o.MaxResponse}, nil
}

// CloseIdle closes the connections that are kept for the next call.
func (d *Driver) CloseIdle() { d.client.CloseIdleConnections() }

// Do sends one request. An answer of 400 or more is an error. It is a *nacre.Refusal that names the
// status where another request might do better. It is a plain error where the operator or the
// service must act (401, 403, 407, 5xx). Errors never hold a secret, a value of an argument, or
// what the service wrote.
func (d *Driver) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	filled, err := d.endpoint.fill(in.Arguments)
	if err != nil {
		return nil, nacre.NotSent(&nacre.Refusal{Code: nacre.CodeValidationFailed, Message: err.Error()})
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var sent atomic.Bool
	raw, err := d.exchange(ctx, filled, &sent)
	if err != nil && !sent.Load() {
		err = nacre.NotSent(err)
	}
	return raw, err
}

// exchange sets sent as soon as the request has a connection to be written to:
// before that no byte of it can have left, after that nobody can tell.
func (d *Driver) exchange(ctx context.Context, f filled, sent *atomic.Bool) (json.RawMessage, error) {
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	var body io.Reader
	if f.body != nil {
		body = bytes.NewReader(f.body)
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), d.endpoint.method, f.url, body)
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	d.endpoint.setHeaders(request.Header, f.body != nil)
	response, err := d.client.Do(request)
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	raw, err := d.read(response)
	if closing := response.Body.Close(); err == nil && closing != nil {
		err = closing
	}
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	return raw, nil
}

// failed names the endpoint as declared; the library's own errors would quote
// the URL with the arguments in it.
func (d *Driver) failed(ctx context.Context, err error) error {
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) {
		return err
	}
	if expired := context.Cause(ctx); expired != nil {
		err = expired
	}
	var quoting *url.Error
	if errors.As(err, &quoting) {
		err = quoting.Err
	}
	return fmt.Errorf("%s: %w", d.endpoint.name, err)
}

// checkRedirect follows a GET to the same host only, and never from https to
// http. What writes is not followed: nobody could say where it arrived.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return errors.New("the service redirects a request that writes; declare the endpoint's new URL")
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case next.URL.User != nil || !sameHost(first.URL, next.URL):
		return errors.New("the service redirects to another host or scheme; declare the endpoint's new URL")
	}
	return nil
}

func sameHost(from, to *url.URL) bool {
	upgraded := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == ""
	return from.Hostname() == to.Hostname() && (upgraded || from.Scheme == to.Scheme && port(from) == port(to))
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
