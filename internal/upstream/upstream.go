// Package upstream is where models are asked. It has the places of an installation, where the key
// for each is from, what their models cost, and what is left of the day's budgets.
package upstream

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/model"
)

// Place is an upstream with where its key is from, in words; empty where it lacks it.
type Place struct {
	model.Upstream
	KeyFrom string
	// Vendor is whose subscription login stands for the key; empty where none does.
	Vendor string
}

// Places are those that the operator named, then the vendors' own for
// what no named one speaks. One whose key is missing cannot be asked, and what
// it was named for is not sent to a vendor's instead.
func Places(inst *installation.Installation) ([]Place, error) {
	var places []Place
	for _, c := range inst.Config.Model.Upstreams {
		p, err := placeOf(inst, c)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	declared := slices.Clone(places)
	named := func(d model.Dialect) bool {
		return slices.ContainsFunc(declared, func(p Place) bool { return len(p.Models) == 0 && slices.Contains(p.Dialects, d) })
	}
	base, err := inst.Config.Model.Upstream()
	if err != nil {
		return nil, err
	}
	own := config.Model{KeyEnv: inst.Config.Model.KeyEnv, KeyFile: inst.Config.Model.KeyFile}
	for _, c := range []struct {
		url      *url.URL
		key      config.Model
		dialects []model.Dialect
	}{
		{base, own, []model.Dialect{model.Anthropic}},
		{&url.URL{Scheme: "https", Host: strings.TrimPrefix(config.DefaultOpenAIURL, "https://")}, config.Model{KeyEnv: config.DefaultOpenAIKeyEnv}, []model.Dialect{model.Responses, model.Chat}},
	} {
		if named(c.dialects[0]) { // the operator has another place for this
			continue
		}
		if p, ok := signedIn(inst, c.dialects[0]); ok {
			places = append(places, p)
			continue
		}
		dialects := slices.DeleteFunc(c.dialects, named)
		key, err := c.key.ModelKey(inst.Options.Getenv)
		if err != nil {
			return nil, err
		}
		if !key.Empty() {
			places = append(places, Place{Upstream: model.Upstream{URL: c.url, Key: key, Dialects: dialects}, KeyFrom: c.key.KeySource()})
		}
	}
	return places, nil
}

// signedIn is the place that a subscription login opens, where the operator lets the
// gateway use it and there is one (U-02).
func signedIn(inst *installation.Installation, d model.Dialect) (Place, bool) {
	vendor, host, path := "claude", "api.anthropic.com", ""
	if d != model.Anthropic {
		vendor, host, path = "codex", "chatgpt.com", "/backend-api/codex"
	}
	if !inst.Config.Model.Subscribed() {
		return Place{}, false
	}
	if !kept(inst, vendor) {
		return Place{}, false
	}
	to := &url.URL{Scheme: "https", Host: host}
	if other := inst.Config.Model.LoginURL; other != "" {
		to.Scheme, to.Host, _ = strings.Cut(other, "://") // the config has checked it
	}
	to.Path = path
	return Place{
		Upstream: model.Upstream{URL: to, Dialects: []model.Dialect{d}, Unversioned: path != ""},
		KeyFrom:  "the subscription login of nacre login " + vendor, Vendor: vendor,
	}, true
}

// kept tells whether there is a login of a vendor.
func kept(inst *installation.Installation, vendor string) bool {
	_, err := os.Lstat(filepath.Join(inst.Registry.Paths().Logins(), vendor+".json"))
	return err == nil
}

// placeOf reads what one upstream's entry names.
func placeOf(inst *installation.Installation, c config.Upstream) (Place, error) {
	to, err := url.Parse(c.URL)
	if err != nil {
		return Place{}, err
	}
	p := Place{Upstream: model.Upstream{URL: to, Models: c.Models, Compatible: c.Compatible}}
	for _, d := range c.Dialects {
		p.Dialects = append(p.Dialects, model.Dialect(d))
	}
	if c.Prices != "" {
		if p.Prices, err = Prices(inst, c.Prices); err != nil {
			return Place{}, err
		}
	}
	if c.KeyEnv == "" && c.KeyFile == "" {
		p.KeyFrom = c.URL + ", which needs none"
		return p, nil
	}
	source := config.Model{KeyEnv: c.KeyEnv, KeyFile: c.KeyFile}
	if p.Key, err = source.ModelKey(inst.Options.Getenv); err != nil {
		return Place{}, err
	}
	if p.Key.Empty() {
		p.Lacks = source.KeySource() + " is not set"
		if c.KeyFile != "" {
			p.Lacks = source.KeySource() + " is empty"
		}
		return p, nil
	}
	p.KeyFrom = source.KeySource()
	return p, nil
}

// Prices reads a table of prices; a name that is not absolute lies beside config.toml.
func Prices(inst *installation.Installation, name string) (budget.Table, error) {
	if name == "" {
		return budget.ListPrices(), nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(inst.Registry.Paths().Config, name)
	}
	data, err := config.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("model.prices: %w", err)
	}
	table, err := budget.ParsePrices(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

// Priced tells whether a model has a price anywhere that it could be asked.
func Priced(inst *installation.Installation, name string) (bool, error) {
	prices, err := Prices(inst, inst.Config.Model.Prices)
	if err != nil {
		return false, &config.Error{Err: err}
	}
	places, err := Places(inst)
	if err != nil {
		return false, &config.Error{Err: err}
	}
	_, err = prices.Lookup(name)
	for _, p := range places {
		if err != nil && p.Prices != nil {
			_, err = p.Prices.Lookup(name)
		}
	}
	return err == nil, nil
}

// Key is what is known of the key for a dialect, in words.
type Key struct {
	// From is where it is from; empty where nobody can be asked in the dialect.
	From string
	// Help says how to give the gateway what a place for the dialect lacks; empty where none
	// lacks a key.
	Help string
}

// Keys are those for the dialects that agents speak. Where the places cannot be read, as with a file
// of a key that is not there, nobody can be asked: the run that needs one says why.
func Keys(inst *installation.Installation) (anthropic, chat, responses Key) {
	places, err := Places(inst)
	if err != nil {
		places = nil
	}
	of := func(d model.Dialect, vendor, env string) Key {
		k := keyFor(places, d)
		if k.From == "" && k.Help == "" {
			k.Help = help(inst, vendor, env)
		}
		return k
	}
	own := inst.Config.Model.KeySource()
	return of(model.Anthropic, "claude", own), of(model.Chat, "codex", config.DefaultOpenAIKeyEnv), of(model.Responses, "codex", config.DefaultOpenAIKeyEnv)
}

func keyFor(places []Place, d model.Dialect) (k Key) {
	for _, p := range places {
		if !slices.Contains(p.Dialects, d) {
			continue
		}
		if k.From == "" {
			k.From = p.KeyFrom
		}
		if k.Help == "" && p.Lacks != "" {
			k.Help = fmt.Sprintf("give %s its key, which [[model.upstream]] names: %s", p.URL.Host, p.Lacks)
		}
	}
	return k
}

// help says how to give the gateway the key or the login of a vendor, whose key is looked for
// in source (U-02).
func help(inst *installation.Installation, vendor, source string) string {
	m := inst.Config.Model
	key, file := "export "+source+"=…", vendor == "claude" && m.KeyFile != ""
	if file {
		key = "write the key to " + source + ", which key_file under [model] in config.toml names"
	}
	switch {
	case m.BaseURL != "" && vendor == "claude": // a login is sent to its vendor only
		return key
	case m.Subscribed():
		return "nacre login " + vendor + " signs in; or " + key
	case kept(inst, vendor):
		return `a login of ` + vendor + ` is kept: write login = "subscription" under [model] in config.toml once you have read the vendor's terms; or ` + key
	case vendor == "claude" && !file:
		key += ", or name a file with it: key_file under [model] in config.toml"
	}
	return key + "; or nacre login " + vendor + " signs in with your subscription"
}

// Check reads what config.toml names of models and sessions read when they need it (F-63).
func Check(_ context.Context, inst *installation.Installation) (findings []installation.Finding) {
	_, prices := Prices(inst, inst.Config.Model.Prices)
	_, places := Places(inst)
	for _, err := range []error{prices, places} {
		if err != nil {
			findings = append(findings, installation.Unread(err))
		}
	}
	return findings
}

// Lacking tells a place that cannot be asked.
func Lacking(p Place) bool { return p.Lacks != "" }

// Hosts names the places, for a person.
func Hosts(places []Place) string {
	var names []string
	for _, p := range places {
		if !Lacking(p) && !slices.Contains(names, p.URL.Host) {
			names = append(names, p.URL.Host)
		}
	}
	return strings.Join(names, ", ")
}
