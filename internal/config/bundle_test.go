package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
)

// U-05: each bundle is made of hosts that may be named, and what is only asked some
// requests is complete. Nothing in them publishes.
func TestTheBundlesHold(t *testing.T) {
	all, err := config.Bundles()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, bundle := range all {
		names = append(names, bundle.Name)
		more := config.BundleNames([]string{bundle.Name})
		rules, err := config.Egress{}.Rules(more)
		if err != nil || len(rules) != len(bundle.Hosts) || bundle.About == "" {
			t.Errorf("%s: %v, %v", bundle.Name, rules, err)
		}
		opened, err := config.Egress{}.Opened(more)
		if err != nil {
			t.Error(err)
		}
		for _, c := range opened {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			if slices.Contains(c.Methods, "PUT") || slices.Contains(c.Methods, "DELETE") {
				t.Errorf("%s publishes at %s", bundle.Name, c.Host)
			}
		}
		for _, host := range bundle.Hosts {
			if strings.HasPrefix(host.Host, "upload.") || host.Host == "crates.io" {
				t.Errorf("%s publishes at %s", bundle.Name, host.Host)
			}
		}
	}
	if want := []string{"go", "npm", "pip", "cargo", "github"}; !slices.Equal(names, want) {
		t.Errorf("have %v, want %v", names, want)
	}
}

// U-05: a host of a bundle that the operator names as well is reached by its name. A bundle that is
// none names those there are.
func TestABundleIsNamedWhereHostsAre(t *testing.T) {
	opened, err := config.Egress{Allow: []string{"bundle:npm"}}.Opened(nil)
	if err != nil || len(opened) != 2 || opened[0].Scheme != egress.SchemeNone || opened[0].Host != "registry.npmjs.org" {
		t.Errorf("have %+v, %v", opened, err)
	}
	if opened, err := (config.Egress{Allow: []string{"bundle:npm"}}).Opened([]string{"registry.npmjs.org:443"}); err != nil || len(opened) != 0 {
		t.Errorf("have %+v, %v", opened, err)
	}
	for _, name := range []string{"nmp", "", "registry.npmjs.org"} {
		if _, err := (config.Egress{}).Rules(config.BundleNames([]string{name})); err == nil || !strings.Contains(err.Error(), "go, npm, pip, cargo, github") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
