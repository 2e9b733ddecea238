package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Request is for whom a person signs in.
type Request struct {
	// Server is the URL of the MCP server.
	Server string
	// ClientID is one that the authorization server knows already; empty means that nacre
	// registers itself there.
	ClientID string
	// Scopes narrow what is asked for; empty means what the server asks for.
	Scopes []string
	// Open shows the person the page where they sign in.
	Open func(page string)
	// Show, where it is set, shows the person a page and a code to type there, on any device
	// (RFC 8628), and Open is not called.
	Show func(page, code string)
}

// SignIn has a person sign in, and waits until they have, or ctx ends. Nothing is kept.
func (s Store) SignIn(ctx context.Context, r Request) (Login, error) {
	if !safe(r.Server) {
		return Login{}, ErrServer
	}
	if r.Show != nil {
		return s.signInByCode(ctx, r)
	}
	back, err := s.listen(ctx)
	if err != nil {
		return Login{}, err
	}
	defer back.close()
	w := witness{next: s.client().Transport}
	if w.next == nil {
		w.next = http.DefaultTransport
	}
	client := s.client()
	client.Transport = &w
	l := Login{Server: r.Server, Scopes: r.Scopes}
	config := auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.url, RequestRefreshToken: true, AcceptUnadvertisedIss: true, Client: client,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			page, err := url.Parse(args.URL)
			if err != nil || !safe(args.URL) {
				return nil, errors.New("the page to sign in at is not https")
			}
			l.Resource = page.Query().Get("resource")
			r.Open(args.URL)
			return back.wait(ctx, page.Query().Get("state"))
		},
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			l.TokenURL, l.ClientID, l.ClientSecret, l.RevokeURL = c.Endpoint.TokenURL, c.ClientID, c.ClientSecret, w.revocation(c.Endpoint.TokenURL)
			l.Access, l.Refresh, l.Issued, l.Expires = t.AccessToken, t.RefreshToken, s.now().UTC(), t.Expiry.UTC()
			if t.Expiry.IsZero() {
				l.Expires = t.Expiry
			}
			scope, _ := t.Extra("scope").(string) // it may say none
			return oauth2.StaticTokenSource(t), s.checkGiven(ctx, l, t, strings.Fields(scope))
		},
	}
	if len(r.Scopes) > 0 {
		config.ScopeFilter = func([]string) []string { return r.Scopes }
	}
	if r.ClientID != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: r.ClientID}
	} else {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "nacre", RedirectURIs: []string{back.url}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	handler, err := auth.NewAuthorizationCodeHandler(&config)
	if err != nil {
		return Login{}, err
	}
	req, resp, err := challenge(ctx, client, r.Server) //nolint:bodyclose // the handler closes it
	if err != nil {
		return Login{}, err
	}
	if err := handler.Authorize(ctx, req, resp); err != nil {
		return Login{}, fmt.Errorf("the sign-in did not come about: %w", bounded(err))
	}
	return l, nil
}

// checkGiven refuses a token that is for more than was asked, and takes it back.
func (s Store) checkGiven(ctx context.Context, l Login, t *oauth2.Token, scopes []string) error {
	wide := len(l.Scopes) > 0 && slices.ContainsFunc(scopes, func(scope string) bool { return scope != "offline_access" && !slices.Contains(l.Scopes, scope) })
	switch {
	case !isToken(t.AccessToken) || !strings.EqualFold(t.Type(), "bearer"):
		return errors.New("the server's answer is not a bearer token")
	case wide:
		_ = s.revoke(ctx, l) // it is not kept, whether or not it is taken back
		return errors.New("the server gave more scopes than were asked for, which is not used")
	}
	return nil
}

// challenge asks the MCP server without a token: it says where tokens come from.
func challenge(ctx context.Context, client *http.Client, server string) (*http.Request, *http.Response, error) {
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"nacre","version":"1"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(hello))
	if err != nil {
		return nil, nil, ErrServer
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be reached", req.URL.Host)
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, nil, errors.Join(fmt.Errorf("%s asks nobody to sign in: it answered with status %d", req.URL.Host, resp.StatusCode), resp.Body.Close())
	}
	return req, resp, nil
}

// maxError is how much is told of what a server wrote.
const maxError = 300

func bounded(err error) error {
	var told *oauth2.RetrieveError
	if errors.As(err, &told) {
		return fmt.Errorf("the server refused the code (%s)", reason(told.Body))
	}
	if text := err.Error(); len(text) > maxError {
		return fmt.Errorf("%.*q", maxError, text)
	}
	return err
}

// safe accepts https, and http to this machine.
func safe(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && at.IsLoopback())
}

// witness bounds answers, and remembers what authorization servers say of themselves: of
// those that are used the library has checked the rest.
type witness struct {
	next http.RoundTripper
	said []serverMeta
}

// serverMeta is what an authorization server says of itself; the library knows no Device.
type serverMeta struct {
	oauthex.AuthServerMeta
	Device string `json:"device_authorization_endpoint"`
}

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	if !safe(r.URL.String()) {
		return nil, errors.New("a server is reached over https alone")
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	var meta serverMeta
	if json.Unmarshal(data, &meta) == nil && meta.TokenEndpoint != "" {
		w.said = append(w.said, meta)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// revocation is where the server revokes whose tokens are from an address.
func (w *witness) revocation(tokens string) string {
	for _, meta := range w.said {
		if meta.TokenEndpoint == tokens && safe(meta.RevocationEndpoint) {
			return meta.RevocationEndpoint
		}
	}
	return ""
}

// device is where the server gives codes whose tokens are from an address.
func (w *witness) device(tokens string) string {
	for _, meta := range w.said {
		if meta.TokenEndpoint == tokens && safe(meta.Device) {
			return meta.Device
		}
	}
	return ""
}

// callback is the page of this machine that a browser comes back to.
type callback struct {
	url   string
	found chan url.Values
	http  http.Server
}

func (s Store) listen(ctx context.Context) (*callback, error) {
	var at net.ListenConfig
	l, err := at.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if s.Claim != nil {
		bound, err := netip.ParseAddrPort(l.Addr().String())
		if err == nil {
			err = s.Claim(ctx, bound.Port())
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	c := &callback{url: "http://" + l.Addr().String() + "/callback", found: make(chan url.Values)}
	c.http = http.Server{ReadHeaderTimeout: patience, MaxHeaderBytes: maxToken, Handler: http.HandlerFunc(c.answer)}
	go func() { _ = c.http.Serve(l) }() // ends with close
	return c, nil
}

func (c *callback) close() { _ = c.http.Close() }

func (c *callback) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet || r.URL.Path != "/callback" {
		http.NotFound(w, r)
		return
	}
	select {
	case c.found <- r.URL.Query():
		_, _ = io.WriteString(w, "nacre has the answer: the terminal says what came of it. This page can be closed.\n")
	case <-r.Context().Done():
	}
}

// wait takes the answer that belongs to this sign-in: another page's changes nothing.
func (c *callback) wait(ctx context.Context, state string) (*auth.AuthorizationResult, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("nobody signed in in time")
		case q := <-c.found:
			switch {
			case state == "" || q.Get("state") != state:
			case q.Get("error") != "":
				answer, err := json.Marshal(map[string]string{"error": q.Get("error")})
				return nil, errors.Join(fmt.Errorf("the server refused (%s)", reason(answer)), err)
			default:
				return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
			}
		}
	}
}
