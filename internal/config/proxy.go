package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/lease"
)

// noProxy as the URL of a proxy reaches the network without one, whatever the
// environment says.
const noProxy = "direct"

// UpstreamProxy is a company's proxy, through which nacre itself reaches the network
// (U-07). Its zero value takes HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the environment.
type UpstreamProxy struct {
	// URL is http://HOST:PORT or https://HOST:PORT, without a password, or "direct".
	URL string `toml:"url"`
	// User and the password that PasswordEnv or PasswordFile names are shown to the proxy.
	User         string `toml:"user"`
	PasswordEnv  string `toml:"password_env"`
	PasswordFile string `toml:"password_file"`
	// NoProxy are hosts that are reached without it, as NO_PROXY has them.
	NoProxy string `toml:"no_proxy"`
}

func (p UpstreamProxy) password() lease.Source {
	return lease.Source{Env: p.PasswordEnv, File: p.PasswordFile}
}

func (p UpstreamProxy) check() error {
	switch {
	case p.URL == "" && p != (UpstreamProxy{}):
		return errors.New("[egress.proxy] url is missing: the other keys are of the proxy that it names")
	case p.URL == noProxy && p != (UpstreamProxy{URL: noProxy}):
		return errors.New("[egress.proxy] url = \"direct\" has no other key beside it")
	case (p.User != "") != p.password().Named():
		return errors.New("[egress.proxy] user and one of password_env and password_file belong together")
	}
	if p.password().Named() {
		if err := p.password().Check(); err != nil {
			return fmt.Errorf("[egress.proxy] password: %w", err)
		}
	}
	if p.URL == noProxy {
		return nil
	}
	options := egress.UpstreamOptions{Tunnels: p.URL, NoSecrets: true}
	if _, err := egress.NewUpstream(options); err != nil {
		return fmt.Errorf("[egress.proxy] url: %w", err)
	}
	return nil
}

// Outward has a transport of nacre's own trust whom the operator trusts, and go through
// the operator's proxy.
func (e Egress) Outward(t *http.Transport, getenv func(string) string) error {
	up, err := e.Upstream(getenv)
	if err != nil {
		return err
	}
	roots, err := e.Roots()
	if err != nil {
		return err
	}
	if roots != nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	t.Proxy, t.DialContext = nil, up.Dial(t.DialContext)
	return nil
}

// Upstream are the proxies through which nacre reaches the network; nil where there are
// none. The environment is asked where the config names none. Authorities that the
// config or the environment names and that cannot be read are an error, and so is a password.
//
//nolint:contextcheck,nolintlint // a variable or a file is read at once; it is callers that the linter would name
func (e Egress) Upstream(getenv func(string) string) (*egress.Upstream, error) {
	if _, err := EnvironmentAuthorities(getenv); err != nil {
		return nil, err
	}
	roots, err := e.Roots()
	if err != nil || e.Proxy.URL == noProxy {
		return nil, err
	}
	if p := e.Proxy; p.URL != "" {
		o := egress.UpstreamOptions{Tunnels: p.URL, Plain: p.URL, Except: p.NoProxy, User: p.User, Roots: roots}
		if p.User != "" {
			o.Password = func(ctx context.Context) (nacre.Secret, error) { return p.password().Read(ctx, getenv) }
			if _, err := o.Password(context.Background()); err != nil { // else each connection fails for it
				return nil, fmt.Errorf("[egress.proxy] password: %w", err)
			}
		}
		return egress.NewUpstream(o)
	}
	env := func(name, other string) string { return cmp.Or(getenv(name), getenv(other)) }
	up, err := egress.NewUpstream(egress.UpstreamOptions{
		Tunnels: env("HTTPS_PROXY", "https_proxy"), Plain: env("HTTP_PROXY", "http_proxy"), Except: env("NO_PROXY", "no_proxy"), Roots: roots,
	})
	if err != nil {
		return nil, fmt.Errorf("HTTPS_PROXY and HTTP_PROXY of the environment: %w; [egress.proxy] url = \"direct\" leaves them out", err)
	}
	return up, nil
}
