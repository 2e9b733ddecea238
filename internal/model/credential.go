package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Credential is what a call shows its upstream. It never reaches the brain.
type Credential struct {
	Key nacre.Secret
	// Account is the vendor's name of the account, where its protocol sends one.
	Account string
	// login says that it is of a subscription login, and not a key.
	login bool
}

// asked is the upstream of a call, with what the call shows it.
type asked struct {
	*Upstream
	credential Credential
}

// Subscription is what an operator writes who has read the vendor's terms, and lets the
// gateway use subscription logins. The zero value is no such word.
const Subscription = "subscription"

// CheckLogin refuses a config that would send a login anywhere but to its vendor, or to
// a server on this machine that stands in for the vendors.
func CheckLogin(login, base, standIn string) error {
	switch {
	case login != "" && login != Subscription:
		return fmt.Errorf("model.login = %q: write %q, or leave it out", login, Subscription)
	case login != "" && base != "":
		return errors.New("model: a login is sent to its vendor only: leave out base_url or login")
	case standIn == "":
		return nil
	}
	at, err := url.Parse(standIn)
	if err != nil || at.Scheme != "http" || at.Path != "" || checkURL(at) != nil {
		return fmt.Errorf("model.login_url = %q stands in for the vendors on this machine only: write http://127.0.0.1:PORT", standIn)
	}
	return nil
}

// Login gives the short-lived token of a person's subscription login (U-02). The
// token that the vendor has rejected, where there is one, is not given again. Many calls ask at
// once. An error is a sentence that says what the person does next, and holds no token.
type Login func(ctx context.Context, rejected nacre.Secret) (Credential, error)

// loginBeta is the feature by which Anthropic's interface accepts the token of a login.
// The gateway adds it, and no brain asks for it.
const loginBeta = "oauth-2025-04-20"

// identify finds what the call shows its upstream.
func (c *call) identify(ctx context.Context, rejected nacre.Secret) *refusal {
	if c.upstream.Login == nil {
		c.upstream.credential = Credential{Key: c.upstream.Key}
		return nil
	}
	given, err := c.upstream.Login(ctx, rejected)
	if err != nil {
		return refuse(ReasonLogin, "%v", err)
	}
	if given.Key.Empty() {
		return refuse(ReasonLogin, "the login gave no token")
	}
	given.login = true
	c.upstream.credential = given
	return nil
}

// sign shows the token of a login. It may replace an earlier one.
func (c Credential) sign(out http.Header) {
	out.Set("Authorization", "Bearer "+c.Key.Reveal())
	if c.Account != "" {
		out.Set("Chatgpt-Account-Id", c.Account)
	}
	if out.Get("Anthropic-Version") == "" {
		return
	}
	betas := strings.Split(out.Get("Anthropic-Beta"), ",")
	if !slices.Contains(betas, loginBeta) {
		out.Set("Anthropic-Beta", strings.TrimPrefix(strings.Join(append(betas, loginBeta), ","), ","))
	}
}
