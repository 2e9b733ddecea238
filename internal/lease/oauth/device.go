package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

const (
	// deviceGrant is the name of the device flow (RFC 8628), and what a code is changed for a token with.
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	// askEvery is how long nacre waits between two questions where the server says nothing,
	// slower how much longer after it said slow_down.
	askEvery, slower = 5 * time.Second, 5 * time.Second
	// maxEvery is the longest such wait.
	maxEvery = time.Minute
	// maxUserCode is the longest code that a person types, in bytes.
	maxUserCode = 64
)

// deviceCode is a server's answer to who wants to sign in on another device.
type deviceCode struct {
	Device string `json:"device_code"`
	User   string `json:"user_code"`
	Page   string `json:"verification_uri"`
	// Life and Interval are in seconds.
	Life     int64 `json:"expires_in"`
	Interval int64 `json:"interval"`
}

func (c deviceCode) whole() bool {
	return isToken(c.Device) && isToken(c.User) && len(c.User) <= maxUserCode && isToken(c.Page) && safe(c.Page) && c.Life > 0
}

// every is the wait before the first question.
func (c deviceCode) every() time.Duration {
	if c.Interval <= 0 {
		return askEvery
	}
	return min(time.Duration(min(c.Interval, maxLife))*time.Second, maxEvery)
}

// signInByCode has a person type a code at a page, in any browser anywhere, and waits until they
// have, the code is over, or ctx ends.
func (s Store) signInByCode(ctx context.Context, r Request) (Login, error) {
	w := witness{next: s.client().Transport}
	if w.next == nil {
		w.next = http.DefaultTransport
	}
	client := s.client()
	client.Transport = &w
	l, meta, err := discover(ctx, client, r)
	if err != nil {
		return Login{}, err
	}
	at := w.device(meta.TokenEndpoint)
	if at == "" {
		return Login{}, errors.New("the authorization server has no sign-in by a code: leave out --device, and forward the port of the page's redirect_uri")
	}
	l.RevokeURL = w.revocation(meta.TokenEndpoint)
	if l, err = register(ctx, client, r, l, meta); err != nil {
		return Login{}, err
	}
	form := url.Values{"resource": {l.Resource}}
	if len(l.Scopes) > 0 {
		form.Set("scope", strings.Join(l.Scopes, " "))
	}
	var code deviceCode
	switch why, err := s.ask(ctx, at, l, form, &code); {
	case err != nil:
		return Login{}, err
	case why != "":
		return Login{}, fmt.Errorf("the server gave no code to sign in with (%s)", why)
	case !code.whole():
		return Login{}, errors.New("the server's answer is no code to sign in with")
	}
	r.Show(code.Page, code.User)
	given, err := s.changed(ctx, l, code)
	if err != nil {
		return Login{}, err
	}
	l.Access, l.Refresh, l.Issued, l.Expires = given.Access, given.Refresh, s.now().UTC(), given.expiry(s.now())
	return l, s.checkGiven(ctx, l, &oauth2.Token{AccessToken: given.Access, TokenType: given.Type}, strings.Fields(given.Scope))
}

// discover asks the MCP server where its tokens come from, and whoever gives them what they can do.
func discover(ctx context.Context, client *http.Client, r Request) (Login, *oauthex.AuthServerMeta, error) {
	l := Login{Server: r.Server, Scopes: r.Scopes}
	_, resp, err := challenge(ctx, client, r.Server)
	if err != nil {
		return l, nil, err
	}
	_ = resp.Body.Close() // its head says all
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return l, nil, errors.New("the server does not say where its tokens come from")
	}
	at := ""
	for _, c := range challenges {
		if at == "" {
			at = c.Params["resource_metadata"]
		}
		if len(l.Scopes) == 0 {
			l.Scopes = strings.Fields(c.Params["scope"])
		}
	}
	about, err := oauthex.GetProtectedResourceMetadata(ctx, at, r.Server, client)
	if err != nil || about == nil || len(about.AuthorizationServers) == 0 {
		return l, nil, errors.New("the server does not say where its tokens come from")
	}
	meta, err := auth.GetAuthServerMetadata(ctx, about.AuthorizationServers[0], client)
	if err != nil || meta == nil || !safe(meta.TokenEndpoint) {
		return l, nil, errors.New("the authorization server says nothing of itself that can be used")
	}
	l.Resource, l.TokenURL = about.Resource, meta.TokenEndpoint
	return l, meta, nil
}

// register makes nacre known at the authorization server, where it is not.
func register(ctx context.Context, client *http.Client, r Request, l Login, meta *oauthex.AuthServerMeta) (Login, error) {
	l.ClientID = r.ClientID
	if r.ClientID != "" {
		return l, nil
	}
	if !safe(meta.RegistrationEndpoint) {
		return l, errors.New("the authorization server registers nobody: name a client that it knows with --client-id")
	}
	known, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		ClientName: "nacre", RedirectURIs: []string{}, GrantTypes: []string{deviceGrant, "refresh_token"}, TokenEndpointAuthMethod: "none",
	}, client)
	if err != nil {
		return l, fmt.Errorf("the authorization server does not register nacre: %w", bounded(err))
	}
	l.ClientID, l.ClientSecret = known.ClientID, known.ClientSecret
	return l, nil
}

// changed asks for the token until the person has said yes or no, or the code is over. A server that
// cannot be reached is asked less and less often.
func (s Store) changed(ctx context.Context, l Login, code deviceCode) (grant, error) {
	every, over := code.every(), s.now().Add(time.Duration(min(code.Life, maxLife))*time.Second)
	for {
		if err := s.wait(ctx, every); err != nil {
			return grant{}, errors.New("nobody signed in in time")
		}
		if !s.now().Before(over) {
			return grant{}, errExpired
		}
		var given grant
		why, err := s.ask(ctx, l.TokenURL, l, url.Values{"grant_type": {deviceGrant}, "device_code": {code.Device}, "resource": {l.Resource}}, &given)
		switch {
		case err != nil:
			every = min(2*every, maxEvery)
		case why == "authorization_pending":
		case why == "slow_down":
			every = min(every+slower, maxEvery)
		case why == "expired_token":
			return grant{}, errExpired
		case why != "":
			return grant{}, fmt.Errorf("the server refused (%s)", why)
		case !given.whole():
			return grant{}, errors.New("the server's answer is not a bearer token")
		default:
			return given, nil
		}
	}
}

var errExpired = errors.New("nobody typed the code in time: it is over, sign in again")

// wait waits for a time, or until ctx ends.
func (s Store) wait(ctx context.Context, d time.Duration) error {
	if s.Wait != nil {
		return s.Wait(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
