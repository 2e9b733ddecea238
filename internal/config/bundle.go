package config

import (
	_ "embed" // the bundles are data
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
)

// bundlePrefix names a bundle where hosts are named, such as bundle:npm.
const bundlePrefix = "bundle:"

//go:embed bundles.toml
var bundlesFile string

// Bundle is hosts that are allowed together (U-05).
type Bundle struct {
	Name string `toml:"name" json:"name"`
	// About says what the hosts are for.
	About string       `toml:"about" json:"about"`
	Hosts []BundleHost `toml:"hosts" json:"hosts"`
}

// BundleHost is one of them.
type BundleHost struct {
	// Host is written as in [egress] allow.
	Host string `toml:"host" json:"host"`
	// Only are the requests that it may be asked. None means that it is reached by its name alone, and
	// what is asked of it is not seen.
	Only []BundleRequest `toml:"only" json:"only,omitempty"`
}

// BundleRequest are methods and prefixes of paths.
type BundleRequest struct {
	Methods []string `toml:"methods" json:"methods"`
	Paths   []string `toml:"paths" json:"paths"`
}

// Bundles are all there are, in the order of the file.
func Bundles() ([]Bundle, error) {
	var file struct {
		Bundles []Bundle `toml:"bundle"`
	}
	if _, err := toml.Decode(bundlesFile, &file); err != nil {
		return nil, fmt.Errorf("bundles.toml: %w", err)
	}
	return file.Bundles, nil
}

// bundleOf finds the bundle that a text of [egress] allow or --egress names.
func bundleOf(text string) (bundle Bundle, is bool, err error) {
	name, is := strings.CutPrefix(text, bundlePrefix)
	if !is {
		return Bundle{}, false, nil
	}
	all, err := Bundles()
	if err != nil {
		return Bundle{}, true, err
	}
	var names []string
	for _, b := range all {
		if b.Name == name {
			return b, true, nil
		}
		names = append(names, b.Name)
	}
	return Bundle{}, true, fmt.Errorf("egress %q: the bundles are %s (nacre egress bundles); a host is named with --egress HOST:PORT", text, strings.Join(names, ", "))
}

// BundleNames reads names with commas between them, as --allow has them, as texts of
// egress.
func BundleNames(names []string) []string {
	var texts []string
	for _, name := range names {
		texts = append(texts, bundlePrefix+strings.TrimSpace(name))
	}
	return texts
}

// expanded are the texts with the hosts of bundles in their places.
func (e Egress) expanded(texts []string) ([]string, error) {
	var all []string
	for _, text := range texts {
		bundle, is, err := bundleOf(text)
		if err != nil {
			return nil, err
		}
		if !is {
			all = append(all, text)
		}
		for _, host := range bundle.Hosts {
			all = append(all, host.Host)
		}
	}
	return all, nil
}

// Opened are what a session may ask of the hosts of its bundles, and of those that were
// learned, that are not reached by their names alone. A host that the operator names beside the bundle is.
func (e Egress) Opened(more []string) ([]egress.Credential, error) {
	var named []nacre.EgressRule
	var opened []egress.Credential
	texts := slices.Concat(e.Allow, e.learned.Names, more)
	for _, text := range texts {
		if rule, err := e.Rule(text); err == nil { // a bundle is no rule
			named = append(named, rule)
		}
	}
	for _, text := range texts {
		bundle, _, err := bundleOf(text)
		if err != nil {
			return nil, err
		}
		for _, host := range bundle.Hosts {
			rule, err := posture.ParseEgress(host.Host)
			if err != nil {
				return nil, err
			}
			if slices.Contains(named, rule) {
				continue
			}
			for _, only := range host.Only {
				opened = append(opened, egress.Credential{
					Name: bundlePrefix + bundle.Name, Host: rule.Host, Port: rule.Port, Scheme: egress.SchemeNone, Methods: only.Methods, Paths: only.Paths,
				})
			}
		}
	}
	for _, request := range e.learned.Requests {
		if !slices.Contains(named, request.Rule()) {
			opened = append(opened, request)
		}
	}
	return opened, nil
}

// Uses are what was learned of credentials.
func (e Egress) Uses() []egress.Use { return e.learned.Uses }

// Unlocked are the powers that were unlocked (M-51).
func (e Egress) Unlocked() []string { return e.learned.Powers }

// With adds what was learned.
func (e Egress) With(l egress.Learned) Egress {
	e.learned = l
	return e
}
