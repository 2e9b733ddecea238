package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

// gcp mints tokens of a service account of Google Cloud, which another account, or a person,
// may impersonate.
type gcp struct{ provider }

// accessToken is Google's answer.
type accessToken struct {
	Token   string    `json:"accessToken"`
	Expires time.Time `json:"expireTime"`
}

// accountKey is the file of a service account's key, as far as it is used: where it says to
// ask for tokens is not.
type accountKey struct {
	Type  string `json:"type"`
	ID    string `json:"private_key_id"`
	Key   string `json:"private_key"`
	Email string `json:"client_email"`
}

// Mint implements lease.Issuer.
func (g gcp) Mint(ctx context.Context, ttl time.Duration) (lease.Minted, error) {
	word, err := g.word(ctx)
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	var given accessToken
	err = g.ask(ctx, http.MethodPost, "/v1/projects/-/serviceAccounts/"+url.PathEscape(g.table.Account)+":generateAccessToken", http.Header{"Authorization": {"Bearer " + word}}, map[string]any{
		"scope": g.table.Scopes, "lifetime": fmt.Sprintf("%ds", int64(ttl/time.Second)),
	}, &given)
	if err != nil {
		return lease.Minted{}, err
	}
	return checked(ctx, g, lease.Minted{
		Material: lease.Material{Value: nacre.NewSecret(given.Token)}, Expires: given.Expires, Handle: nacre.NewSecret(g.table.Account),
	}, g.life(given.Expires, ttl))
}

// word is what the operator impersonates with: a token, or one that the key of a service
// account signs for this API alone.
func (g gcp) word(ctx context.Context) (string, error) {
	root, err := g.options.Root(ctx)
	if err != nil {
		return "", err
	}
	text := root.Reveal()
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text, lease.CheckValue(root)
	}
	var key accountKey
	if json.Unmarshal([]byte(text), &key) != nil || key.Type != "service_account" || key.Email == "" {
		return "", errors.New("the value is neither a token nor the JSON key of a service account")
	}
	now := g.options.Now()
	return assertion([]byte(key.Key), "the service account's page", map[string]any{"kid": key.ID}, map[string]any{
		"iss": key.Email, "sub": key.Email, "aud": "https://iamcredentials.googleapis.com/", "iat": now.Add(-backdated).Unix(), "exp": now.Add(assertionLife).Unix(),
	})
}

// Revoke implements lease.Issuer. Google revokes no token of a service account.
func (gcp) Revoke(context.Context, nacre.Secret) error { return lease.ErrIrrevocable }
