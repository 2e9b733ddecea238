package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// Issuer mints credentials, each for a time, and takes them back (M-32). It is safe for
// concurrent use. No error holds a value.
type Issuer interface {
	// Mint gives a new credential, at most for ttl where the provider can be told, with
	// nothing beyond what the issuer's table asks for. What a provider gave beyond it is
	// taken back, and not given. After [ErrRefused] or [ErrNothing] no credential is out.
	Mint(ctx context.Context, ttl time.Duration) (Minted, error)
	// Revoke ends what Mint gave. One that has ended already is no error; [ErrRefused] says
	// that trying again is of no use.
	Revoke(ctx context.Context, handle nacre.Secret) error
}

// ErrRefused says that a provider answered, and will not do what was asked.
var ErrRefused = errors.New("the provider refused")

// ErrNothing says that no credential is out although no provider refused: none was reached, or what it
// gave was taken back.
var ErrNothing = errors.New("no credential is out")

// ErrIrrevocable says that nobody can end a credential before its time.
var ErrIrrevocable = errors.New("the provider has no way to revoke it")

// Minted is a credential that was made for one lease.
type Minted struct {
	Material
	// Expires is when it ends by itself; it is always set.
	Expires time.Time
	// Handle is what it is revoked with: the value itself where a provider knows no other.
	Handle nacre.Secret
}

// The providers that mint.
const (
	GitHubApp  = "github-app"
	Vault      = "vault"
	AWSSTS     = "aws-sts"
	Cloudflare = "cloudflare"
	GCP        = "gcp-impersonation"
	Registry   = "registry"
)

// Minting is the table of a credential that is minted: by whom, and how narrow. What is
// then named as the credential's value is what it is minted with, which never leaves
// nacre but to that provider. The zero value mints nothing.
type Minting struct {
	// Kind is who mints: one of the constants.
	Kind string `toml:"kind"`
	// URL is where the provider's API is; empty means the public one, where there is one.
	URL string `toml:"url"`
	// App and Installation are the ids of a GitHub App and of where it is installed. Repositories and
	// Permissions are all that a token is for. Repositories are also those of a registry of
	// containers, which Service is the name of.
	App          string            `toml:"app"`
	Installation string            `toml:"installation"`
	Repositories []string          `toml:"repositories"`
	Permissions  map[string]string `toml:"permissions"`
	// Policies are those of a token of Vault.
	Policies []string `toml:"policies"`
	Assumed
	// Account is that of Cloudflare, the service account of Google Cloud that is impersonated, or who
	// a token of a registry is for. Scopes are the scopes of OAuth for Google Cloud. Groups are the
	// ids of the permission groups that a token of Cloudflare has, and Resources the objects that it
	// has them for.
	Account   string   `toml:"account"`
	Service   string   `toml:"service"`
	Groups    []string `toml:"permission_groups"`
	Resources []string `toml:"resources"`
	Scopes    []string `toml:"scopes"`
	// Budget is what a person grants before anything is minted.
	Budget Budgeting `toml:"budget"`
}

// Assumed is a role of AWS, by its ARN, that is assumed in Region. Policy is the session policy beyond
// which it may do nothing.
type Assumed struct {
	Role   string `toml:"role"`
	Region string `toml:"region"`
	Policy string `toml:"policy"`
}

// Named reports whether the credential is minted.
func (m Minting) Named() bool { return !reflect.ValueOf(m).IsZero() }

// maxScopes is how many repositories, permissions, policies and the like a token is for.
const maxScopes = 64

// Check refuses a table that asks for everything, or for what its provider does not have.
func (m Minting) Check() error {
	p, ok := m.provider()
	if !ok {
		return fmt.Errorf("kind is %s", listed())
	}
	foreign := m
	foreign.Kind, foreign.URL, foreign.Budget = "", "", Budgeting{}
	p.leave(&foreign)
	if foreign.Named() {
		return fmt.Errorf("kind %s takes %s, and url and budget: the other keys are of other kinds", m.Kind, p.keys)
	}
	if err := p.check(m); err != nil {
		return err
	}
	return errors.Join(checkURL(m.Address()), m.Budget.check())
}

// Level orders the levels of a permission; 0 is none.
func Level(name string) int {
	return slices.Index([]string{"read", "write", "admin"}, name) + 1
}

// Address is where the provider's API is, without a slash at its end.
func (m Minting) Address() string {
	if p, ok := m.provider(); ok && m.URL == "" {
		return p.url(m)
	}
	return strings.TrimRight(m.URL, "/")
}

// Scope says what a minted credential is for.
func (m Minting) Scope() string {
	p, ok := m.provider()
	if !ok {
		return ""
	}
	return p.scope(m)
}

// String says who mints and for what; it is empty where nobody does.
func (m Minting) String() string {
	if !m.Named() {
		return ""
	}
	if m.Budget.Named() {
		return m.Kind + " for " + m.Scope() + ", once a person grants " + m.Budget.String()
	}
	return m.Kind + " for " + m.Scope()
}

// Revocable reports whether the provider can end a credential before its time.
func (m Minting) Revocable() bool { return m.Kind != AWSSTS && m.Kind != GCP && m.Kind != Registry }

// Lifetime reads the ttl of the credential. Where a person grants it, a lease lasts from
// 15 minutes to an hour: a shorter one would use up the renewals, not the hours.
func (m Minting) Lifetime(ttl string) (time.Duration, error) {
	d, err := ParseTTL(ttl)
	if err == nil && m.Budget.Named() && d < DefaultTTL {
		err = errors.New("ttl is a time from 15m to 1h where a person grants a budget")
	}
	return d, err
}

// Methods are those that a credential may be used with: none named means GET and HEAD.
func Methods(named []string) []string {
	if len(named) == 0 {
		return []string{"GET", "HEAD"}
	}
	return named
}

// checkURL accepts https, and http to this machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("url is https://HOST of the provider's API")
	}
	at, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && err == nil && at.IsLoopback() {
		return nil
	}
	return errors.New("url is https://HOST: what a credential is minted with is not sent in the clear")
}
