package assembly

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
)

// DefaultOpenAIURL is where calls in OpenAI's formats go, where its key is set
// and the config names no other place.
const DefaultOpenAIURL = "https://api.openai.com"

// defaultOpenAIKeyEnv holds its key.
const defaultOpenAIKeyEnv = "OPENAI_API_KEY"

// UpstreamConfig is a further place that answers model calls (M-04).
type UpstreamConfig struct {
	URL     string `toml:"url"`
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
	// Dialects are what it is asked in: anthropic, openai-responses, openai-chat.
	Dialects []string `toml:"dialects"`
	// Models, where there are any, are the only ones that are asked here.
	Models []string `toml:"models"`
	// Prices is a file of prices beside config.toml; empty means the built-in ones.
	Prices string `toml:"prices"`
	// Compatible says that it is not OpenAI itself.
	Compatible bool `toml:"compatible"`
}

func (u UpstreamConfig) check() error {
	parsed, err := url.Parse(u.URL)
	switch {
	case err != nil || parsed.Host == "" || parsed.User != nil:
		return fmt.Errorf("model.upstream url = %q: write https://HOST, or http://127.0.0.1:PORT", u.URL)
	case u.KeyEnv != "" && u.KeyFile != "":
		return fmt.Errorf("model.upstream %s: name key_env or key_file, not both", u.URL)
	case strings.HasPrefix(u.KeyEnv, "sk-"):
		return fmt.Errorf("model.upstream %s: key_env names a variable; a key itself does not belong in this file", u.URL)
	case len(u.Dialects) == 0:
		return fmt.Errorf("model.upstream %s: name its dialects: anthropic, openai-responses, openai-chat", u.URL)
	}
	for _, d := range u.Dialects {
		if !model.Dialect(d).Known() {
			return fmt.Errorf("model.upstream %s: dialect %q: anthropic, openai-responses or openai-chat", u.URL, d)
		}
	}
	return nil
}

// place is an upstream with where its key is from, in words; empty where it lacks it.
type place struct {
	model.Upstream
	keyFrom string
}

// upstreams are the places that the operator named, then the vendors' own for
// what no named one speaks. One whose key is missing cannot be asked, and what
// it was named for is not sent to a vendor's instead.
func (r *Runtime) upstreams() ([]place, error) {
	var places []place
	for _, c := range r.config.Model.Upstreams {
		p, err := r.place(c)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	declared := slices.Clone(places)
	named := func(d model.Dialect) bool {
		return slices.ContainsFunc(declared, func(p place) bool { return len(p.Models) == 0 && slices.Contains(p.Dialects, d) })
	}
	base, err := r.config.Model.upstream()
	if err != nil {
		return nil, err
	}
	own := ModelConfig{KeyEnv: r.config.Model.KeyEnv, KeyFile: r.config.Model.KeyFile}
	for _, c := range []struct {
		url      *url.URL
		key      ModelConfig
		dialects []model.Dialect
	}{
		{base, own, []model.Dialect{model.Anthropic}},
		{&url.URL{Scheme: "https", Host: strings.TrimPrefix(DefaultOpenAIURL, "https://")}, ModelConfig{KeyEnv: defaultOpenAIKeyEnv}, []model.Dialect{model.Responses, model.Chat}},
	} {
		if named(c.dialects[0]) { // the operator has another place for this
			continue
		}
		dialects := slices.DeleteFunc(c.dialects, named)
		key, err := c.key.modelKey(r.options.Getenv)
		if err != nil {
			return nil, err
		}
		if !key.Empty() {
			places = append(places, place{model.Upstream{URL: c.url, Key: key, Dialects: dialects}, c.key.keySource()})
		}
	}
	return places, nil
}

// place reads what one upstream's entry names.
func (r *Runtime) place(c UpstreamConfig) (place, error) {
	to, err := url.Parse(c.URL)
	if err != nil {
		return place{}, err
	}
	p := place{Upstream: model.Upstream{URL: to, Models: c.Models, Compatible: c.Compatible}}
	for _, d := range c.Dialects {
		p.Dialects = append(p.Dialects, model.Dialect(d))
	}
	if c.Prices != "" {
		if p.Prices, err = r.prices(c.Prices); err != nil {
			return place{}, err
		}
	}
	if c.KeyEnv == "" && c.KeyFile == "" {
		p.keyFrom = c.URL + ", which needs none"
		return p, nil
	}
	source := ModelConfig{KeyEnv: c.KeyEnv, KeyFile: c.KeyFile}
	if p.Key, err = source.modelKey(r.options.Getenv); err != nil {
		return place{}, err
	}
	if p.Key.Empty() {
		p.Lacks = source.keySource() + " is not set"
		if c.KeyFile != "" {
			p.Lacks = source.keySource() + " is empty"
		}
		return p, nil
	}
	p.keyFrom = source.keySource()
	return p, nil
}

// prices reads a table of prices; a name that is not absolute lies beside config.toml.
func (r *Runtime) prices(name string) (budget.Table, error) {
	if name == "" {
		return budget.ListPrices(), nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.registry.Paths().Config, name)
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

// keyFor says where the key for a dialect is from; empty where nobody can be
// asked in it.
func keyFor(places []place, d model.Dialect) string {
	for _, p := range places {
		if slices.Contains(p.Dialects, d) && p.keyFrom != "" {
			return p.keyFrom
		}
	}
	return ""
}

// helpFor says how to give the place that the operator named for a dialect its
// key; empty where none lacks one.
func helpFor(places []place, d model.Dialect) string {
	for _, p := range places {
		if slices.Contains(p.Dialects, d) && p.Lacks != "" {
			return fmt.Sprintf("give %s its key, which [[model.upstream]] names: %s", p.URL.Host, p.Lacks)
		}
	}
	return ""
}

// lacking tells a place that cannot be asked.
func lacking(p place) bool { return p.Lacks != "" }

// hosts names the places, for a person.
func hosts(places []place) string {
	var names []string
	for _, p := range places {
		if !lacking(p) && !slices.Contains(names, p.URL.Host) {
			names = append(names, p.URL.Host)
		}
	}
	return strings.Join(names, ", ")
}
