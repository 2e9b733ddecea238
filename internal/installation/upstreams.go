package installation

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/model"
)

// Place is an upstream with where its key is from, in words; empty where it lacks it.
type Place struct {
	model.Upstream
	KeyFrom string
	// Vendor is whose subscription login stands for the key; empty where none does.
	Vendor string
}

// Upstreams are the places that the operator named, then the vendors' own for
// what no named one speaks. One whose key is missing cannot be asked, and what
// it was named for is not sent to a vendor's instead.
func (inst *Installation) Upstreams() ([]Place, error) {
	var places []Place
	for _, c := range inst.Config.Model.Upstreams {
		p, err := inst.place(c)
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
		if p, ok := inst.signedIn(c.dialects[0]); ok {
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
func (inst *Installation) signedIn(d model.Dialect) (Place, bool) {
	vendor, host, path := "claude", "api.anthropic.com", ""
	if d != model.Anthropic {
		vendor, host, path = "codex", "chatgpt.com", "/backend-api/codex"
	}
	if !inst.Config.Model.Subscribed() {
		return Place{}, false
	}
	if _, err := os.Lstat(filepath.Join(inst.Registry.Paths().Logins(), vendor+".json")); err != nil {
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

// place reads what one upstream's entry names.
func (inst *Installation) place(c config.Upstream) (Place, error) {
	to, err := url.Parse(c.URL)
	if err != nil {
		return Place{}, err
	}
	p := Place{Upstream: model.Upstream{URL: to, Models: c.Models, Compatible: c.Compatible}}
	for _, d := range c.Dialects {
		p.Dialects = append(p.Dialects, model.Dialect(d))
	}
	if c.Prices != "" {
		if p.Prices, err = inst.Prices(c.Prices); err != nil {
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
func (inst *Installation) Prices(name string) (budget.Table, error) {
	if name == "" {
		return budget.ListPrices(), nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(inst.Registry.Paths().Config, name)
	}
	data, err := os.ReadFile(name)
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
func (inst *Installation) Priced(name string) (bool, error) {
	prices, err := inst.Prices(inst.Config.Model.Prices)
	if err != nil {
		return false, &config.Error{Err: err}
	}
	places, err := inst.Upstreams()
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

// keyFor says where the key for a dialect is from; empty where nobody can be
// asked in it.
func keyFor(places []Place, d model.Dialect) string {
	for _, p := range places {
		if slices.Contains(p.Dialects, d) && p.KeyFrom != "" {
			return p.KeyFrom
		}
	}
	return ""
}

// helpFor says how to give the place that the operator named for a dialect its
// key; empty where none lacks one.
func helpFor(places []Place, d model.Dialect) string {
	for _, p := range places {
		if slices.Contains(p.Dialects, d) && p.Lacks != "" {
			return fmt.Sprintf("give %s its key, which [[model.upstream]] names: %s", p.URL.Host, p.Lacks)
		}
	}
	return ""
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
