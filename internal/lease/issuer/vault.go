package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	var said json.RawMessage
	err = v.ask(ctx, http.MethodPost, "/v1/auth/token/revoke-accessor", header, map[string]any{"accessor": accessor.Reveal()}, &said)
	switch {
	case gone(err, http.StatusBadRequest, unknown):
		return nil
	case err == nil && len(said) > 0 && !warned(said):
		return errors.New("the answer of Vault does not say that the token is gone: try again")
	}
	return err
}

// warned reports whether Vault, from version 1.10 on, has revoked nothing since it knows no such accessor.
func warned(answer json.RawMessage) bool {
	var said struct {
		Warnings []string `json:"warnings"`
	}
	return json.Unmarshal(answer, &said) == nil && slices.Contains(said.Warnings, "No token found with this accessor")
}

// unknown reports whether Vault refuses an accessor since it knows none such, as it did before that, or since
// its token is gone.
func unknown(said refusal) bool {
	var texts []string
	return json.Unmarshal(said.Errors, &texts) == nil && slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, "invalid accessor") || strings.Contains(text, "token not found")
	})
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
