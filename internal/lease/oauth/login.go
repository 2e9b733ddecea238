// Package oauth keeps a person's sign-in at the authorization server of an MCP server, and gives
// the short-lived token of it (M-36). The person signs in once, in a browser, with PKCE and for
// that one server (RFC 8707). The token is refreshed once for all sessions and processes, under a
// lock on its file. What the server gave is kept before anybody uses it, since a refresh token is
// replaced by each use. Where the server refuses to refresh, that is remembered: nobody asks again
// until the person has signed in anew.
//
// No error holds a token or what a server wrote.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// margin is how long before its end a token is replaced: longer than whoever read it
	// uses it without reading it anew.
	margin = 16 * time.Minute
	// patience bounds one exchange with a server, lockWait the wait for another process.
	patience, lockWait = 30 * time.Second, time.Minute
	// maxFile is the largest file of a sign-in, and the largest answer, in bytes.
	maxFile = 1 << 20
	// maxToken is the longest token, in bytes.
	maxToken = 16 << 10
)

// ErrSignIn says that a person has to sign in anew.
var ErrSignIn = errors.New("needs sign-in")

// ErrServer says that a person named no MCP server whose answers are safe to read.
var ErrServer = errors.New("name the MCP server as https://HOST/PATH")

// Login is a sign-in as it lies in its file, which belongs to the person alone. The zero
// value opens nothing.
type Login struct {
	// Server is the MCP server, Resource its own name for itself, which the token is for.
	Server   string `json:"server"`
	Resource string `json:"resource"`
	// TokenURL and RevokeURL are of the authorization server; the second may be empty.
	TokenURL  string `json:"token_url"`
	RevokeURL string `json:"revoke_url,omitempty"`
	// ClientID is what nacre is known as there; ClientSecret is for a client that has one.
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret,omitempty"`
	Access       string    `json:"access_token"`
	Refresh      string    `json:"refresh_token,omitempty"`
	Issued       time.Time `json:"issued,omitzero"`
	Expires      time.Time `json:"expires,omitzero"`
	Scopes       []string  `json:"scopes,omitempty"`
	// Refused is the server's word for why it refused to refresh; empty where it did not.
	Refused string `json:"refused,omitempty"`
}

// Host is the only place that the token is for.
func (l Login) Host() string {
	u, err := url.Parse(l.Resource)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// Store is the file of one sign-in, and how its server is reached. Only Path is required.
type Store struct {
	Path string
	// Client reaches the authorization server; nil means one with the proxies of the
	// environment. Redirects are never followed.
	Client *http.Client
	// Now is the clock; nil means the system's.
	Now func() time.Time
	// Wait waits between two questions to a server, or until ctx ends; nil means by the system's
	// clock.
	Wait func(ctx context.Context, d time.Duration) error
	// Claim says, until ctx ends, that nacre listens on a port of this machine; nil says it to
	// nobody.
	Claim func(ctx context.Context, port uint16) error
}

func (s Store) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s Store) client() *http.Client {
	client := http.Client{Timeout: patience}
	if s.Client != nil {
		client = *s.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// Load reads the sign-in, although it may have ended.
func (s Store) Load() (Login, error) {
	info, err := os.Lstat(s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Login{}, fmt.Errorf("%w: nobody has signed in yet", ErrSignIn)
	case err != nil:
		return Login{}, pathless(err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return Login{}, errors.New("the file of the sign-in is not a regular file that its owner alone can read")
	}
	data, err := disk.Read(s.Path, maxFile)
	var l Login
	if err != nil || json.Unmarshal(data, &l) != nil || !isToken(l.Access) || l.Refresh != "" && !isToken(l.Refresh) {
		return Login{}, fmt.Errorf("%w: its file is damaged", ErrSignIn)
	}
	return l, nil
}

// Keep replaces the sign-in, while nobody refreshes it.
func (s Store) Keep(ctx context.Context, l Login) error {
	return s.locked(ctx, func() error { return s.write(l) })
}

func (s Store) write(l Login) error {
	data, err := json.Marshal(l) //nolint:gosec // the file of mode 0600 is where the sign-in is kept
	if err != nil {
		return err
	}
	return pathless(disk.Write(s.Path, data, 0o600))
}

func (s Store) locked(ctx context.Context, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return pathless(err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := disk.TakeLock(ctx, s.Path+".lock")
	if err != nil {
		return fmt.Errorf("the sign-in cannot be locked: %w", pathless(err))
	}
	return errors.Join(do(), lock.Release())
}

// Token gives a token that is good now.
func (s Store) Token(ctx context.Context) (nacre.Secret, error) {
	l, err := s.Load()
	if err == nil && !s.good(l) {
		err = s.locked(ctx, func() error {
			// Whoever held the lock before may have refreshed it.
			if l, err = s.Load(); err != nil || s.good(l) {
				return err
			}
			l, err = s.renew(ctx, l)
			return err
		})
	}
	if err != nil {
		return nacre.Secret{}, err
	}
	return nacre.NewSecret(l.Access), nil
}

// good reports whether a token is used as it is: one that can be refreshed is replaced
// before its end, but not before half of its life.
func (s Store) good(l Login) bool {
	lead := time.Duration(0)
	if l.Refresh != "" {
		lead = min(margin, l.Expires.Sub(l.Issued)/2)
	}
	return l.Refused == "" && (l.Expires.IsZero() || s.now().Add(lead).Before(l.Expires))
}

// renew asks the server, and keeps what it gave before anybody uses it. A call that is given
// up does not cut the exchange short.
func (s Store) renew(ctx context.Context, l Login) (Login, error) {
	if err := l.over(); err != nil {
		return Login{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var given grant
	why, err := s.ask(ctx, l.TokenURL, l, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.Refresh}, "resource": {l.Resource}}, &given)
	switch {
	case why != "":
		l.Refused = why
		return Login{}, errors.Join(refused(why), s.write(l))
	case err == nil && !given.whole():
		err = errors.New("the server's answer is not a token")
	}
	if err != nil && s.now().Before(l.Expires) {
		return l, nil // the server is out of reach, and the token is good for minutes yet
	}
	if err != nil {
		return Login{}, fmt.Errorf("the token could not be refreshed, and the next request tries again: %w", err)
	}
	l.Access, l.Issued, l.Expires = given.Access, s.now().UTC(), given.expiry(s.now())
	if given.Refresh != "" {
		l.Refresh = given.Refresh
	}
	if err := s.write(l); err != nil {
		return Login{}, fmt.Errorf("the refreshed token could not be kept, so that nobody uses it: %w", err)
	}
	return l, nil
}

// over refuses a sign-in whose token is not good any more, and cannot be replaced.
func (l Login) over() error {
	switch {
	case l.Refused != "":
		return refused(l.Refused)
	case l.Refresh == "":
		return fmt.Errorf("%w: the token has ended, and the server gave nothing to refresh it with", ErrSignIn)
	}
	return nil
}

// Needed is [ErrSignIn] where a person has to sign in before the file opens anything. It asks
// no server.
func (s Store) Needed() error {
	l, err := s.Load()
	if err != nil || s.good(l) {
		return err
	}
	return l.over()
}

func refused(why string) error {
	return fmt.Errorf("%w: the server refused to refresh the token (%s)", ErrSignIn, why)
}

// Remove revokes the sign-in, and takes its file away. left says why it was not revoked;
// empty where it was. The lock stays: whoever waits for it would hold one that is gone.
func (s Store) Remove(ctx context.Context) (left string, err error) {
	err = s.locked(ctx, func() error {
		if l, err := s.Load(); err == nil {
			left = s.revoke(ctx, l)
		}
		return pathless(os.Remove(s.Path))
	})
	return left, err
}

// revoke tells the server that the tokens are not used any more (RFC 7009).
func (s Store) revoke(ctx context.Context, l Login) string {
	if l.RevokeURL == "" {
		return "the server has no way to revoke it: it ends at " + l.ends()
	}
	for kind, token := range map[string]string{"refresh_token": l.Refresh, "access_token": l.Access} {
		if token == "" {
			continue
		}
		why, err := s.ask(ctx, l.RevokeURL, l, url.Values{"token": {token}, "token_type_hint": {kind}}, nil)
		if err != nil || why != "" {
			return "the server did not revoke it: it ends at " + l.ends()
		}
	}
	return ""
}

func (l Login) ends() string {
	if l.Expires.IsZero() {
		return "a time that nobody said"
	}
	return l.Expires.UTC().Format(time.RFC3339)
}

// grant is a server's answer to a refresh.
type grant struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Refresh string `json:"refresh_token"`
	Life    int64  `json:"expires_in"`
	Scope   string `json:"scope"`
}

// maxLife is the longest that is believed of a token, in seconds.
const maxLife = 400 * 24 * 3600

func (g grant) whole() bool {
	return isToken(g.Access) && (g.Refresh == "" || isToken(g.Refresh)) && strings.EqualFold(g.Type, "bearer")
}

func (g grant) expiry(now time.Time) time.Time {
	if g.Life <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(g.Life, maxLife)) * time.Second).UTC()
}

// ask makes one exchange. A refusal is the server's code for why; all else is an error.
func (s Store) ask(ctx context.Context, to string, l Login, form url.Values, into any) (refused string, err error) {
	if l.ClientSecret == "" {
		form.Set("client_id", l.ClientID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil || !safe(to) {
		return "", errors.New("the server's address is not https")
	}
	if l.ClientSecret != "" {
		req.SetBasicAuth(url.QueryEscape(l.ClientID), url.QueryEscape(l.ClientSecret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := s.client().Do(req)
	if err != nil {
		return "", fmt.Errorf("%s cannot be reached", req.URL.Host)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	switch {
	case err != nil:
		return "", fmt.Errorf("the answer of %s was cut", req.URL.Host)
	case resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnauthorized:
		return reason(answer), nil
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answered with status %d", req.URL.Host, resp.StatusCode)
	case into != nil && json.Unmarshal(answer, into) != nil:
		return "", fmt.Errorf("the answer of %s is not JSON", req.URL.Host)
	}
	return "", nil
}

// reason is a server's code for a refusal, where it is one.
func reason(answer []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &said) != nil || said.Error == "" || len(said.Error) > 40 || strings.Trim(said.Error, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "refused"
	}
	return said.Error
}

// isToken accepts what can stand in a header.
func isToken(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// pathless is an error without names of files on the host: a brain may be told of it.
func pathless(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
