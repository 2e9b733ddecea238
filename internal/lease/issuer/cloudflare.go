package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

// cloudflare mints tokens of an account of Cloudflare, with a token that may create some.
type cloudflare struct{ provider }

// childToken is Cloudflare's answer.
type childToken struct {
	Success bool `json:"success"`
	Result  struct {
		ID       string       `json:"id"`
		Value    string       `json:"value"`
		Status   string       `json:"status"`
		Expires  time.Time    `json:"expires_on"`
		Policies []childRight `json:"policies"`
	} `json:"result"`
}

// childRight is what a token may do with which objects.
type childRight struct {
	Effect    string            `json:"effect"`
	Resources map[string]string `json:"resources"`
	Groups    []rightGroup      `json:"permission_groups"`
}

type rightGroup struct {
	ID string `json:"id"`
}

// Mint implements lease.Issuer.
func (c cloudflare) Mint(ctx context.Context, ttl time.Duration) (lease.Minted, error) {
	header, err := c.header(ctx)
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	right := childRight{Effect: "allow", Resources: map[string]string{}}
	for _, resource := range c.table.Resources {
		right.Resources[resource] = "*"
	}
	for _, id := range c.table.Groups {
		right.Groups = append(right.Groups, rightGroup{id})
	}
	var given childToken
	err = c.ask(ctx, http.MethodPost, c.path(""), header, map[string]any{
		"name": "nacre", "policies": []childRight{right}, "expires_on": c.options.Now().Add(ttl).UTC().Format(time.RFC3339),
	}, &given)
	if err != nil {
		return lease.Minted{}, err
	}
	result := given.Result
	return checked(ctx, c, lease.Minted{Material: lease.Material{Value: nacre.NewSecret(result.Value)}, Expires: result.Expires, Handle: nacre.NewSecret(result.ID)}, c.wrong(given, ttl))
}

// wrong says how a token is more than was asked for.
func (c cloudflare) wrong(given childToken, ttl time.Duration) error {
	if !given.Success || given.Result.Status != "active" || len(given.Result.Policies) == 0 {
		return errWide
	}
	for _, right := range given.Result.Policies {
		if right.Effect != "allow" || len(right.Groups) == 0 || len(right.Resources) == 0 {
			return errWide
		}
		for resource, which := range right.Resources {
			if which != "*" || !slices.Contains(c.table.Resources, resource) {
				return errWide
			}
		}
		if slices.ContainsFunc(right.Groups, func(g rightGroup) bool { return !slices.Contains(c.table.Groups, g.ID) }) {
			return errWide
		}
	}
	return c.life(given.Result.Expires, ttl)
}

// Revoke implements lease.Issuer, by the token's id, which opens nothing.
func (c cloudflare) Revoke(ctx context.Context, id nacre.Secret) error {
	header, err := c.header(ctx)
	if err != nil {
		return err
	}
	var done struct {
		Success bool `json:"success"`
	}
	err = c.ask(ctx, http.MethodDelete, c.path("/"+url.PathEscape(id.Reveal())), header, nil, &done)
	switch {
	case gone(err, http.StatusNotFound, unlisted):
		return nil
	case err == nil && !done.Success:
		return errors.New("the answer of Cloudflare does not say that the token is gone: try again")
	}
	return err
}

// noRoute is Cloudflare's code for an address that leads to nothing, whatever token it names.
const noRoute = 7003

// unlisted reports whether Cloudflare itself says that it has no such token.
func unlisted(said refusal) bool {
	var errs []struct{ Code int }
	return said.Success != nil && !*said.Success && json.Unmarshal(said.Errors, &errs) == nil && len(errs) > 0 &&
		!slices.ContainsFunc(errs, func(e struct{ Code int }) bool { return e.Code == noRoute })
}

func (c cloudflare) path(rest string) string {
	return "/client/v4/accounts/" + url.PathEscape(c.table.Account) + "/tokens" + rest
}

func (c cloudflare) header(ctx context.Context) (http.Header, error) {
	root, err := c.options.Root(ctx)
	if err == nil {
		err = lease.CheckValue(root)
	}
	return http.Header{"Authorization": {"Bearer " + root.Reveal()}}, err
}
