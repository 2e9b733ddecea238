package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of talking to a server.
const (
	maxResponse  = 16 << 20 // bytes
	maxRedirects = 5
	httpTimeout  = 20 * time.Second // one request, redirects apart
)

// The codes of what may go wrong with a server.
const (
	codeAuth     = plugin.CategoryAuth
	codeNetwork  = plugin.CategoryNetwork
	codeServer   = "SERVER_ERROR"
	codeBusy     = "BUSY"
	codeConflict = "CONFLICT"
)

var errTooLarge = errors.New("the response is too large")

// dav sends requests to the one server of the configuration. The password
// goes nowhere else: a redirect to another host is refused.
type dav struct {
	base     *url.URL
	user     string
	password nacre.Secret
	client   *http.Client
}

// server talks to the CalDAV server with the password as it is now.
func (p *reminders) server(ctx context.Context, read secrets) (*davBook, error) {
	password, err := read(ctx, "password")
	if err != nil || password.Reveal() == "" {
		return nil, &plugin.ToolError{Code: codeAuth, Message: "The password of the calendar account is not set"}
	}
	return &davBook{config: p.config, now: time.Now, dav: dav{
		base: p.config.server, user: p.config.User, password: password, client: newClient(p.config.roots),
	}}, nil
}

// newClient follows no redirect by itself, and goes where the environment says
// there is a proxy.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: httpTimeout,
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DisableKeepAlives: true, // a client lives for one call
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Do sends a request as go-webdav wants it sent. Whatever is not a success is a
// [plugin.ToolError], in words of ours.
func (d dav) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path+"/" == d.base.Path {
		r.URL.Path = d.base.Path // go-webdav drops the slash, and some servers know no such address
	}
	for range maxRedirects {
		if !d.ours(r.URL) {
			return nil, &plugin.ToolError{Code: codeServer, Message: "The calendar server names addresses on another host: nothing was sent there"}
		}
		r.SetBasicAuth(d.user, d.password.Reveal())
		r.Header.Set("User-Agent", "nacre-reminders")
		response, err := d.client.Do(r) //nolint:gosec // an address of another host was refused above
		if err != nil {
			return nil, networkError(err)
		}
		response.Body = &limitedBody{ReadCloser: response.Body, left: maxResponse}
		switch code := response.StatusCode; {
		case code/100 == 2:
			return response, nil
		case code == 301 || code == 302 || code == 307 || code == 308:
			if r, err = again(r, response); err != nil {
				return nil, errors.Join(err, response.Body.Close())
			}
			_ = response.Body.Close() // the next one counts
		default:
			return nil, errors.Join(statusError(code), response.Body.Close())
		}
	}
	return nil, &plugin.ToolError{Code: codeServer, Message: "The calendar server redirects without end"}
}

func (d dav) ours(u *url.URL) bool { return u.Scheme == d.base.Scheme && u.Host == d.base.Host }

// again is the same request, method and body included, to where a redirect points.
func again(r *http.Request, response *http.Response) (*http.Request, error) {
	to, err := response.Location()
	if err != nil {
		return nil, &plugin.ToolError{Code: codeServer, Message: "The calendar server redirects to nowhere"}
	}
	next := r.Clone(r.Context())
	next.URL, next.Host = to, ""
	if r.GetBody != nil {
		if next.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// networkError says what may be done about it, and nothing of the network's own words.
func networkError(err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &plugin.ToolError{Code: codeNetwork, Message: "The certificate of the calendar server is not trusted: its operator can set ca in [plugins.reminders]"}
	}
	return &plugin.ToolError{Code: codeNetwork, Retriable: true, Message: "The calendar server cannot be reached. " +
		"If that stays so: its operator has to list it in [access.reminders] hosts"}
}

func statusError(code int) error {
	e := &plugin.ToolError{Code: codeServer, Message: fmt.Sprintf("The calendar server refuses this (HTTP %d)", code)}
	switch {
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		e.Code, e.Message = codeAuth, "The calendar server does not take the user name and password"
	case code == http.StatusForbidden, code == http.StatusMethodNotAllowed:
		e.Code, e.Message = "FORBIDDEN", "The account may not do this on the calendar server"
	case code == http.StatusNotFound, code == http.StatusGone:
		e.Code, e.Message = "NOT_FOUND", "The calendar server has nothing of that address"
	case code == http.StatusConflict, code == http.StatusPreconditionFailed, code == http.StatusLocked:
		e.Code, e.Message, e.Retriable = codeConflict, "Somebody else changed the reminder at the same time: list the reminders, and try again", true
	case code == http.StatusRequestEntityTooLarge, code == http.StatusInsufficientStorage:
		e.Code, e.Message = "FULL", "The calendar server has no room for this"
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		e.Code, e.Message, e.Retriable = codeBusy, "The calendar server is busy: try again later", true
	case code >= 500:
		e.Message, e.Retriable = fmt.Sprintf("The calendar server failed (HTTP %d)", code), true
	}
	return e
}

// limitedBody fails where a response goes on beyond what anybody needs.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
