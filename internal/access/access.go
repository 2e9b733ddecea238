// Package access says which plugins there are, and what each of them may reach: what its
// manifest asks for, as far as the operator confirmed it. It starts nothing.
package access

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/plugin"
)

// Reach is what a plugin may reach: what its manifest asks for, as far as
// somebody confirmed it.
type Reach struct {
	Rules []nacre.EgressRule
	// Open are the hosts of the manifest that nobody confirmed.
	Open []string
	// Listen is where connections for it come in; not valid for nowhere.
	Listen  netip.AddrPort
	Project plugin.Project
	Values  map[string]lease.Source
	// Server is the host of the MCP server that is the plugin's handler; empty for any other.
	Server string
}

// Hosts are the rules as records and people read them.
func (r Reach) Hosts() []string { return posture.RuleTexts(r.Rules) }

// ReachOf joins a manifest and what was confirmed. What was confirmed and is in
// no manifest grants nothing.
func ReachOf(inst *installation.Installation, f pluginhost.Found) Reach {
	config, m := inst.Config.Access[string(f.Name)], f.Manifest
	given, err := confirmed(inst, f)
	if err != nil {
		given = consent.Access{} // it is not started either
	}
	confirmed := confirmedHosts(inst, config.Hosts, given.Hosts)
	var to Reach
	for _, text := range m.Hosts {
		found := meets(inst, text, confirmed)
		if len(found) == 0 {
			to.Open = append(to.Open, text)
		}
		for _, rule := range found {
			if !slices.Contains(to.Rules, rule) {
				to.Rules = append(to.Rules, rule)
			}
		}
	}
	to.Project = lesser(m.Project, greater(config.Project, plugin.Project(given.Project)))
	if m.Listen {
		to.Listen, _ = config.Address() // was checked when the config was read
	}
	if server, err := url.Parse(m.MCP.URL); err == nil {
		to.Server = strings.ToLower(server.Host)
	}
	to.Values = map[string]lease.Source{}
	for _, c := range m.Install.Credentials {
		if v, ok := config.Credentials[c.Key]; ok {
			to.Values[c.Key] = v.Source()
		}
	}
	return to
}

func confirmedHosts(inst *installation.Installation, config, given []string) []nacre.EgressRule {
	var rules []nacre.EgressRule
	for _, text := range config {
		if rule, err := inst.Config.Egress.Rule(text); err == nil { // was checked when the config was read
			rules = append(rules, rule)
		}
	}
	for _, text := range given {
		if rule, err := manifestHost(text); err == nil { // "*" confirms nothing: the operator names the hosts
			rules = append(rules, rule)
		}
	}
	return rules
}

// manifestHost reads a host as manifests write it. A pattern stands for one label.
func manifestHost(text string) (nacre.EgressRule, error) {
	if text == plugin.AnyHost {
		return nacre.EgressRule{}, errors.New("the operator names the hosts")
	}
	if posture.IsWildcard(text) {
		return posture.ParseWildcard(text)
	}
	return posture.ParseEgress(text)
}

// meets are the confirmed rules that a host of a manifest asks for, with the operator's pins.
func meets(inst *installation.Installation, text string, confirmed []nacre.EgressRule) []nacre.EgressRule {
	var rules []nacre.EgressRule
	asked, err := manifestHost(text)
	for _, rule := range confirmed {
		if text != plugin.AnyHost {
			if err != nil || asked.Port != rule.Port {
				continue
			}
			host, ok := narrower(asked.Host, rule.Host)
			if !ok {
				continue
			}
			rule.Host = host
		}
		rule.Pin = inst.Config.Egress.PinOf(rule)
		rules = append(rules, rule)
	}
	return rules
}

// narrower is what two names or patterns have in common.
func narrower(a, b string) (string, bool) {
	switch {
	case a == b || covers(b, a):
		return a, true
	case covers(a, b):
		return b, true
	}
	return "", false
}

// covers reports whether a pattern, whose star is exactly one label, covers a name.
func covers(pattern, name string) bool {
	_, parent, found := strings.Cut(name, ".")
	return found && pattern == "*."+parent && !posture.IsWildcard(name)
}

func lesser(a, b plugin.Project) plugin.Project {
	switch {
	case a == plugin.ProjectNone || b == plugin.ProjectNone:
		return plugin.ProjectNone
	case a == plugin.ProjectRead || b == plugin.ProjectRead:
		return plugin.ProjectRead
	}
	return plugin.ProjectWrite
}

func greater(a, b plugin.Project) plugin.Project {
	if a == plugin.ProjectWrite || b == plugin.ProjectWrite {
		return plugin.ProjectWrite
	}
	return max(a, b) // none or read
}

// Idle says what the config grants to no plugin, and allows of no tool.
func Idle(inst *installation.Installation, found []pluginhost.Found) []string {
	return append(idleAccess(inst, found), idleTools(inst, found)...)
}

// idleAccess says what of [access] no plugin asks for: it grants nothing.
func idleAccess(inst *installation.Installation, found []pluginhost.Found) []string {
	known := map[string]pluginhost.Found{}
	for _, f := range found {
		known[string(f.Name)] = f
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(inst.Config.Access)) {
		f, ok := known[name]
		if !ok {
			texts = append(texts, fmt.Sprintf("[access.%s]: there is no plugin of this name, so nothing is granted", name))
			continue
		}
		if f.Err == nil {
			texts = append(texts, beyond(inst, f)...)
		}
	}
	return texts
}

// beyond says what the config confirms and the plugin's manifest does not ask for.
func beyond(inst *installation.Installation, f pluginhost.Found) []string {
	config, m := inst.Config.Access[string(f.Name)], f.Manifest
	var texts []string
	idle := func(what string) {
		texts = append(texts, fmt.Sprintf("[access.%s] %s: its manifest does not ask for it, so it is not granted", f.Name, what))
	}
	for _, text := range config.Hosts {
		rules := confirmedHosts(inst, []string{text}, nil)
		if !slices.ContainsFunc(m.Hosts, func(asked string) bool { return len(meets(inst, asked, rules)) > 0 }) {
			idle("host " + text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(config.Credentials)) {
		if !slices.ContainsFunc(m.Install.Credentials, func(c plugin.Credential) bool { return c.Key == key }) {
			idle("credential " + key)
		}
	}
	if lesser(config.Project, m.Project) != config.Project {
		idle("project")
	}
	if config.Listen != "" && !m.Listen {
		idle("listen")
	}
	return texts
}
