package issuer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

// vault mints tokens of HashiCorp Vault or OpenBao, for some policies of the root token's.
type vault struct{ provider }

// vaultToken is Vault's answer.
type vaultToken struct {
	Auth struct {
		Token    string   `json:"client_token"`
		Accessor string   `json:"accessor"`
		Policies []string `json:"policies"`
		Seconds  int64    `json:"lease_duration"`
		Orphan   bool     `json:"orphan"`
	} `json:"auth"`
}

// Mint implements lease.Issuer.
func (v vault) Mint(ctx context.Context, ttl time.Duration) (lease.Minted, error) {
	header, err := v.header(ctx)
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	seconds := fmt.Sprintf("%ds", int64(ttl/time.Second))
	var given vaultToken
	err = v.ask(ctx, http.MethodPost, "/v1/auth/token/create", header, map[string]any{
		"policies": v.table.Policies, "no_default_policy": true, "renewable": false, "ttl": seconds, "explicit_max_ttl": seconds, "display_name": "nacre",
	}, &given)
	if err != nil {
		return lease.Minted{}, err
	}
	m := lease.Minted{Material: lease.Material{Value: nacre.NewSecret(given.Auth.Token)}, Handle: nacre.NewSecret(given.Auth.Accessor)}
	if s := given.Auth.Seconds; s > 0 && s < int64(24*time.Hour/time.Second) {
		m.Expires = v.options.Now().Add(time.Duration(s) * time.Second)
	}
	return checked(ctx, v, m, v.wrong(given, m.Expires, ttl))
}

func (v vault) wrong(given vaultToken, expires time.Time, ttl time.Duration) error {
	if len(given.Auth.Policies) == 0 || given.Auth.Orphan {
		return errWide // an orphan would outlive the token that it was minted with
	}
	for _, policy := range given.Auth.Policies {
		if !slices.Contains(v.table.Policies, policy) {
			return errWide
		}
	}
	return v.life(expires, ttl)
}

// Revoke implements lease.Issuer, by the token's accessor, which opens nothing.
func (v vault) Revoke(ctx context.Context, accessor nacre.Secret) error {
	header, err := v.header(ctx)
	if err != nil {
		return err
	}
	err = v.ask(ctx, http.MethodPost, "/v1/auth/token/revoke-accessor", header, map[string]any{"accessor": accessor.Reveal()}, nil)
	if gone(err, http.StatusNotFound, http.StatusBadRequest) { // Vault's word for an accessor that it does not know
		return nil
	}
	return err
}

func (v vault) header(ctx context.Context) (http.Header, error) {
	root, err := v.options.Root(ctx)
	if err != nil {
		return nil, err
	}
	if err := lease.CheckValue(root); err != nil {
		return nil, err
	}
	return http.Header{"X-Vault-Token": {root.Reveal()}, "X-Vault-Request": {"true"}}, nil
}
