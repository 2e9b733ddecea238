package issuer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

// registry mints tokens that fetch from repositories of a registry of containers, at the token
// service that the operator names. Which one the registry itself names in WWW-Authenticate is never
// looked at: whoever answers for the registry could name their own, and would get the password.
type registry struct{ provider }

// imageToken is the token service's answer, in either of its spellings.
type imageToken struct {
	Token  string `json:"token"`
	Access string `json:"access_token"`
	// Life is in seconds; none means shortestLife.
	Life int64 `json:"expires_in"`
}

// shortestLife is how long a token is good whose end is not told, in seconds.
const shortestLife = 60

// imageRight is what a token in the form of a JWT says that it may do.
type imageRight struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

var errNoImage = errors.New("the token service gives no right to fetch one of the repositories: check account, service and repositories")

// Mint implements lease.Issuer. How long a token is good the service says: the lease ends no later.
func (r registry) Mint(ctx context.Context, _ time.Duration) (lease.Minted, error) {
	root, err := r.options.Root(ctx)
	if err == nil {
		err = lease.CheckValue(root)
	}
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	asked := url.Values{"service": {r.table.Service}, "account": {r.table.Account}, "client_id": {"nacre"}}
	for _, name := range r.table.Repositories {
		asked.Add("scope", "repository:"+name+":pull")
	}
	began := r.options.Now()
	var given imageToken
	err = r.ask(ctx, http.MethodGet, "?"+asked.Encode(), http.Header{
		"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(r.table.Account+":"+root.Reveal()))},
	}, nil, &given)
	if err != nil {
		return lease.Minted{}, err
	}
	token, expires := given.read(began)
	return checked(ctx, r, lease.Minted{Material: lease.Material{Value: nacre.NewSecret(token)}, Expires: expires, Handle: nacre.NewSecret(r.table.Account)}, errors.Join(r.wrong(token), r.life(expires, maxLife)))
}

// read is the token, and its end. A life that no clock knows is none.
func (t imageToken) read(began time.Time) (token string, expires time.Time) {
	token = t.Token
	if token == "" {
		token = t.Access
	}
	switch life := t.Life; {
	case life == 0:
		return token, began.Add(shortestLife * time.Second)
	case life < 0 || life > int64(2*maxLife/time.Second):
		return token, time.Time{}
	default:
		return token, began.Add(time.Duration(life) * time.Second)
	}
}

// wrong says how a token is more, or less, than was asked for, as far as it tells: one that is no
// JWT tells nothing.
func (r registry) wrong(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	var said struct {
		Access []imageRight `json:"access"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(payload, &said) != nil {
		return nil //nolint:nilerr // it is no JWT
	}
	fetches := map[string]bool{}
	for _, right := range said.Access {
		for _, action := range right.Actions {
			if right.Type != "repository" || action != "pull" || !slices.Contains(r.table.Repositories, right.Name) {
				return errWide
			}
			fetches[right.Name] = true
		}
	}
	if len(fetches) < len(r.table.Repositories) {
		return errNoImage
	}
	return nil
}

// Revoke implements lease.Issuer. No token service takes a token back.
func (registry) Revoke(context.Context, nacre.Secret) error { return lease.ErrIrrevocable }
