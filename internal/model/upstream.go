package model

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// Upstream is one place that answers, as the operator declared it.
type Upstream struct {
	// URL is the base: https, or http on a loopback address. The path /v1 may be at its end.
	URL *url.URL
	// Key is sent to this upstream only. It may be empty for a model on this machine.
	Key nacre.Secret
	// Login, where it is set, gives each call its credential, and Key is not used.
	Login Login
	// Unversioned says that no /v1 stands before the paths.
	Unversioned bool
	// Dialects are what it is asked in; at least one.
	Dialects []Dialect
	// Models, when set, are the only ids that are asked here, and they are asked
	// nowhere else in the same dialect, unless an upstream before this one names them too.
	Models []string
	// Prices, when set, stand in for those of Options: an id that is free on this
	// machine is not free elsewhere.
	Prices budget.Table
	// Lacks says what is missing before it can be asked, such as "CORP_KEY is not
	// set". Its Models are then refused, and asked nowhere else.
	Lacks string
	// Compatible says that it is not OpenAI itself. A maximum that the brain does not set is sent
	// to Chat as max_tokens, as it is to every loopback address, and the field store is left out of
	// Chat.
	Compatible bool
}

// check refuses to send a key in the clear over a network, and what could not be asked.
func (u *Upstream) check() error {
	if err := checkURL(u.URL); err != nil {
		return err
	}
	if len(u.Dialects) == 0 {
		return fmt.Errorf("upstream %s: name its dialects: %s, %s or %s", u.URL.Redacted(), Anthropic, Responses, Chat)
	}
	for _, d := range u.Dialects {
		if !d.Known() {
			return fmt.Errorf("upstream %s: dialect %.64q is none of %s, %s, %s", u.URL.Redacted(), d, Anthropic, Responses, Chat)
		}
	}
	for _, m := range u.Models {
		if err := checkModel(m); m == "" || err != nil {
			return fmt.Errorf("upstream %s: model %.128q is not an id", u.URL.Redacted(), m)
		}
	}
	return nil
}

func checkURL(u *url.URL) error {
	if u == nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the upstream is a URL such as https://api.anthropic.com, without user or query")
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u) {
		return nil
	}
	return fmt.Errorf("upstream %s: use https; http is for this machine only", u.Redacted())
}

func loopback(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// wantsMaxTokens reports whether the upstream may not know max_completion_tokens.
func (u *Upstream) wantsMaxTokens() bool { return u.Compatible || loopback(u.URL) }

// endpoint is the address of a path on the allow-list.
func (u *Upstream) endpoint(path, query string) string {
	base := *u.URL
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1")
	base.RawPath = ""
	if u.Unversioned {
		path = strings.TrimPrefix(path, "/v1")
	}
	to := base.JoinPath(path)
	to.RawQuery = query
	return to.String()
}

func (u *Upstream) speaks(d Dialect) bool { return slices.Contains(u.Dialects, d) }

// choose finds the upstream of a call: the first that names the model, else
// the first that names none.
func (g *Gateway) choose(d Dialect, model string) (*Upstream, *refusal) {
	var open *Upstream
	spoken := false
	for i := range g.upstreams {
		u := &g.upstreams[i]
		if !u.speaks(d) {
			continue
		}
		spoken = true
		if slices.Contains(u.Models, model) {
			if u.Lacks != "" {
				return nil, refuse(ReasonNoUpstream, "model %.128q: its upstream %s cannot be asked: %s", model, u.URL.Host, u.Lacks)
			}
			return u, nil
		}
		if open == nil && len(u.Models) == 0 && u.Lacks == "" {
			open = u
		}
	}
	switch {
	case open != nil:
		return open, nil
	case spoken:
		return nil, refuse(ReasonNoUpstream, "model %.128q: no upstream for %s names it: add it to the upstream's models", model, d)
	}
	return nil, refuse(ReasonNoUpstream, "no upstream speaks %s: declare one to use it", d)
}

// gather puts the upstreams of the options in the order in which they are asked.
func (o *Options) gather() ([]Upstream, error) {
	all := slices.Clone(o.Upstreams)
	if len(all) == 0 {
		return nil, errors.New("no upstream is given")
	}
	for i := range all {
		u := &all[i]
		if err := u.check(); err != nil {
			return nil, err
		}
		if u.Key.Reveal() == o.SessionToken.Reveal() {
			return nil, errors.New("the session token must not be a key")
		}
		if u.Prices == nil {
			u.Prices = o.Prices
		}
	}
	return all, nil
}
