package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

const (
	serviceGitHub = "github"
	serviceGitea  = "gitea"
	gitHubAPI     = "https://api.github.com"
	giteaPath     = "/api/v1"
)

var repositoryForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
})

// config is the operator's [plugins.bug_report].
type config struct {
	Service    string   `json:"service"`
	BaseURL    string   `json:"base_url"`
	Repository string   `json:"repository"`
	Labels     []string `json:"labels"`
	// CA is PEM certificates to trust besides the system's.
	CA string `json:"ca"`

	api   *url.URL       // where paths of the API begin, without a slash at its end
	roots *x509.CertPool // nil for the system's
}

func readConfig(raw json.RawMessage) (c config, err error) {
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, errors.New("the configuration is not of the form that config_schema says")
	}
	switch c.Service {
	case "", serviceGitHub:
		c.Service = serviceGitHub
		if c.BaseURL == "" {
			c.BaseURL = gitHubAPI
		}
	case serviceGitea:
	default:
		return c, fmt.Errorf("service: %.40q is neither github nor gitea", c.Service)
	}
	if c.api, err = url.Parse(strings.TrimRight(c.BaseURL, "/")); err != nil || c.api.Scheme != "https" && !c.plain() || c.api.Host == "" ||
		c.api.User != nil || c.api.RawQuery != "" || c.api.Fragment != "" {
		return c, errors.New("base_url: use an https address such as https://git.example.com, or http://localhost:3000 on this machine, without a token in it")
	}
	if c.Service == serviceGitea && !strings.HasSuffix(c.api.Path, giteaPath) {
		c.api.Path += giteaPath
	}
	if c.Repository != "" && (!repositoryForm().MatchString(c.Repository) || strings.HasSuffix(c.Repository, "/.") || strings.HasSuffix(c.Repository, "/..")) {
		return c, fmt.Errorf("repository: %.80q is not of the form owner/name", c.Repository)
	}
	if c.CA != "" {
		if c.roots, err = x509.SystemCertPool(); err != nil {
			c.roots = x509.NewCertPool()
		}
		if !c.roots.AppendCertsFromPEM([]byte(c.CA)) {
			return c, errors.New("ca: no certificate in PEM form")
		}
	}
	return c, nil
}

// plain reports whether the server is one on this machine without TLS: what the token
// goes through does not leave it (F-82).
func (c *config) plain() bool {
	if c.api == nil || c.api.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(c.api.Hostname())
	return c.api.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
