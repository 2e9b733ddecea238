package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	// margin is how long before its end a token is replaced.
	margin = 5 * time.Minute
	// refreshWait is how long the vendor may take to answer a refresh.
	refreshWait = 30 * time.Second
	// maxLife is the longest that is believed of a token, in seconds.
	maxLife = 400 * 24 * 3600
)

// clientOf is the public name by which the vendor knows its own program. The refresh
// token was given to that program, and no other name refreshes it.
func clientOf(v Vendor) string {
	if v == Claude {
		return "9d1c250a-e61b-44d9-88ed-5944d1962f5e"
	}
	return "app_EMoamEEZ73f0CkXaXp7hrann"
}

// Endpoint is where the vendor refreshes logins.
func Endpoint(v Vendor) string {
	if v == Claude {
		return "https://platform.claude.com/v1/oauth/token"
	}
	return "https://auth.openai.com/oauth/token"
}

// Source gives the short-lived token of one vendor's login. All fields are required.
type Source struct {
	Store  Store
	Vendor Vendor
	// Endpoint is where the login is refreshed; [Endpoint] knows the vendor's own.
	Endpoint string
	Client   *http.Client
	Now      func() time.Time
}

// Token returns a login whose Access is good now. The token that the vendor has just
// rejected, where there is one, is not returned again. Its errors say what the person does next, and hold no token.
func (s Source) Token(ctx context.Context, rejected nacre.Secret) (Login, error) {
	l, err := s.load()
	if err != nil || s.good(l, rejected) {
		return l, err
	}
	if l.Refresh.Empty() {
		return Login{}, fmt.Errorf("the token of the login of %s has ended or was revoked: run nacre login %s again", s.Vendor, s.Vendor)
	}
	err = s.Store.locked(ctx, s.Vendor, func() error {
		// Whoever held the lock before may have refreshed the login.
		if l, err = s.load(); err != nil || s.good(l, rejected) {
			return err
		}
		l, err = s.renew(ctx, l, rejected)
		return err
	})
	if err != nil {
		return Login{}, err
	}
	return l, nil
}

func (s Source) load() (Login, error) {
	l, err := s.Store.Load(s.Vendor)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Login{}, fmt.Errorf("there is no login of %s: run nacre login %s", s.Vendor, s.Vendor)
	case err == nil && l.Refused != "":
		return Login{}, s.refused(l)
	}
	if err != nil {
		return Login{}, pathless(err)
	}
	return l, nil
}

func (s Source) refused(l Login) error {
	return fmt.Errorf("the login of %s cannot be used, because %s: run nacre login %s again", s.Vendor, l.Wrong(s.Now()), s.Vendor)
}

func (s Source) good(l Login, rejected nacre.Secret) bool {
	if l.Access.Empty() || l.Access.Reveal() == rejected.Reveal() {
		return false
	}
	return l.Expires.IsZero() || s.Now().Add(margin).Before(l.Expires)
}

// renew asks the vendor, and keeps what it gave before anybody uses it: a refresh token
// is replaced by each use. A call that is given up does not cut the exchange short.
func (s Source) renew(ctx context.Context, l Login, rejected nacre.Secret) (Login, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshWait)
	defer cancel()
	given, why, err := s.ask(ctx, l)
	if err == nil && why == "" && !l.owns(given.Access) {
		why = AnotherAccount
	}
	switch {
	case why != "":
		l.Refused = why
		return Login{}, errors.Join(s.refused(l), pathless(s.Store.write(s.Vendor, l)))
	case err != nil && l.Access.Reveal() != rejected.Reveal() && s.Now().Before(l.Expires):
		return l, nil // the vendor is out of reach, and the token is good for minutes yet
	case err != nil:
		return Login{}, fmt.Errorf("the login of %s could not be refreshed, and the next call tries again: %w", s.Vendor, err)
	}
	l.Access = nacre.NewSecret(given.Access)
	l.Expires = given.expiry(s.Now())
	if given.Refresh != "" {
		l.Refresh = nacre.NewSecret(given.Refresh)
	}
	if err := s.Store.write(s.Vendor, l); err != nil {
		return Login{}, fmt.Errorf("the refreshed login of %s could not be written: %w", s.Vendor, pathless(err))
	}
	return l, nil
}

// grant is the vendor's answer to a refresh.
type grant struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Life    int64  `json:"expires_in"`
}

func (g grant) expiry(now time.Time) time.Time {
	if g.Life > 0 {
		return now.Add(time.Duration(min(g.Life, maxLife)) * time.Second).UTC()
	}
	return expiryOf(g.Access)
}

// ask makes one exchange. A refusal is the vendor's word for why; all else is an error.
func (s Source) ask(ctx context.Context, l Login) (given grant, refused string, err error) {
	question := map[string]string{"grant_type": "refresh_token", "refresh_token": l.Refresh.Reveal(), "client_id": clientOf(s.Vendor)}
	if len(l.Scopes) > 0 {
		question["scope"] = strings.Join(l.Scopes, " ")
	}
	body, err := json.Marshal(question)
	if err != nil {
		return grant{}, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint, bytes.NewReader(body))
	if err != nil {
		return grant{}, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.Client.Do(req)
	if err != nil {
		return grant{}, "", fmt.Errorf("%s cannot be reached", req.URL.Host)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxFile+1))
	if err != nil || len(answer) > maxFile {
		return grant{}, "", fmt.Errorf("the answer of %s was cut, or is too large", req.URL.Host)
	}
	if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnauthorized {
		return grant{}, reasonOf(answer), nil
	}
	if resp.StatusCode != http.StatusOK {
		return grant{}, "", fmt.Errorf("%s answered with status %d", req.URL.Host, resp.StatusCode)
	}
	if json.Unmarshal(answer, &given) != nil || !isToken(given.Access) || given.Refresh != "" && !isToken(given.Refresh) {
		return grant{}, "", fmt.Errorf("the answer of %s is not a login", req.URL.Host)
	}
	return given, "", nil
}

// reasonOf is the vendor's code for a refusal, where it is one. A text of any kind is not repeated, for it could
// hold what was sent.
func reasonOf(answer []byte) string {
	var flat struct {
		Error string `json:"error"`
	}
	var nested struct {
		Error struct {
			Code string `json:"code"`
			Type string `json:"type"`
		} `json:"error"`
	}
	for _, into := range []any{&flat, &nested} {
		_ = json.Unmarshal(answer, into) // one form or the other, or neither
	}
	for _, code := range []string{flat.Error, nested.Error.Code, nested.Error.Type} {
		if code != "" && len(code) <= 40 && strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") == "" {
			return code
		}
	}
	return "refused"
}
