package issuer

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

const (
	// assertionLife is how long the App's own word is good: GitHub takes at most 10 minutes.
	assertionLife = 5 * time.Minute
	// backdated is how much earlier it begins, as GitHub asks for.
	backdated = time.Minute
)

// github mints installation tokens of a GitHub App, for its repositories and permissions.
type github struct{ provider }

// installationToken is GitHub's answer.
type installationToken struct {
	Token        string            `json:"token"`
	Expires      time.Time         `json:"expires_at"`
	Permissions  map[string]string `json:"permissions"`
	Selection    string            `json:"repository_selection"`
	Repositories []struct {
		Name     string `json:"name"`
		FullName string `json:"full_name"`
	} `json:"repositories"`
}

// Mint implements lease.Issuer. GitHub gives an hour, whatever is asked for: the lease ends
// the token earlier.
func (g github) Mint(ctx context.Context, _ time.Duration) (lease.Minted, error) {
	assertion, err := g.assertion(ctx)
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	var given installationToken
	err = g.ask(ctx, http.MethodPost, "/app/installations/"+url.PathEscape(g.table.Installation)+"/access_tokens", bearer(assertion), map[string]any{
		"repositories": g.table.Repositories, "permissions": g.table.Permissions,
	}, &given)
	if err != nil {
		return lease.Minted{}, err
	}
	token := nacre.NewSecret(given.Token)
	return checked(ctx, g, lease.Minted{Material: lease.Material{Value: token}, Expires: given.Expires, Handle: token}, g.wrong(given))
}

// wrong says how a token is more than was asked for.
func (g github) wrong(given installationToken) error {
	if given.Selection != "selected" || len(given.Repositories) == 0 {
		return errWide
	}
	for _, r := range given.Repositories {
		owner := g.options.Owner
		if !slices.Contains(g.table.Repositories, r.Name) || owner != "" && !strings.EqualFold(r.FullName, owner+"/"+r.Name) {
			return errWide
		}
	}
	for name, level := range given.Permissions {
		asked := lease.Level(g.table.Permissions[name])
		if name == "metadata" {
			asked = max(asked, lease.Level("read")) // which every token has
		}
		if have := lease.Level(level); have == 0 || have > asked {
			return errWide
		}
	}
	return g.life(given.Expires, maxLife)
}

// Revoke implements lease.Issuer. A token revokes itself, and GitHub knows no other way.
func (g github) Revoke(ctx context.Context, token nacre.Secret) error {
	err := g.ask(ctx, http.MethodDelete, "/installation/token", bearer(token.Reveal()), nil, nil)
	if gone(err, http.StatusUnauthorized, func(said refusal) bool { return said.Message == "Bad credentials" }) {
		return nil
	}
	return err
}

func bearer(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}, "X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"nacre"}}
}

// assertion is the App's own word.
func (g github) assertion(ctx context.Context) (string, error) {
	root, err := g.options.Root(ctx)
	if err != nil {
		return "", err
	}
	now := g.options.Now()
	return assertion([]byte(root.Reveal()), "the App's page", map[string]any{}, map[string]any{
		"iss": g.table.App, "iat": now.Add(-backdated).Unix(), "exp": now.Add(assertionLife).Unix(),
	})
}
