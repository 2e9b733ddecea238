package assembly

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/install"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// maxAccessHosts is how many hosts one plugin is let out to.
	maxAccessHosts = 64
	// maxAccessKeys is how many credentials one plugin has.
	maxAccessKeys = 64
)

// AccessConfig is what one plugin may reach beyond its own folder. It grants at
// most what the plugin's manifest asks for (D-21).
type AccessConfig struct {
	// Hosts are those that its handler may reach, written as [egress] allow is.
	Hosts []string `toml:"hosts"`
	// Listen is the ADDRESS:PORT whose connections `nacre serve` hands to it.
	Listen string `toml:"listen"`
	// Project is "read" or "write": the session's project is at /project in its sandbox.
	Project plugin.Project `toml:"project"`
	// Credentials say where the values are of the keys that its manifest lists.
	Credentials map[string]ValueConfig `toml:"credentials"`
}

// ValueConfig says where a secret value is, never what it is (M-32).
type ValueConfig struct {
	ValueEnv  string   `toml:"value_env"`
	ValueFile string   `toml:"value_file"`
	ValueCmd  []string `toml:"value_cmd"`
}

func (v ValueConfig) value() lease.Source {
	return lease.Source{Env: v.ValueEnv, File: v.ValueFile, Command: v.ValueCmd}
}

// checkAccess refuses what cannot be acted on. No error repeats what stands
// where a value could be.
func (c Config) checkAccess() error {
	for _, name := range slices.Sorted(maps.Keys(c.Access)) {
		if _, err := nacre.ParsePluginName(name); err != nil {
			return fmt.Errorf("[access.%s]: %w", name, err)
		}
		if err := c.Access[name].check(c.Egress); err != nil {
			return fmt.Errorf("[access.%s]: %w", name, err)
		}
	}
	return nil
}

func (a AccessConfig) check(e EgressConfig) error {
	if len(a.Hosts) > maxAccessHosts || len(a.Credentials) > maxAccessKeys {
		return fmt.Errorf("at most %d hosts and %d credentials", maxAccessHosts, maxAccessKeys)
	}
	for _, text := range a.Hosts {
		if _, err := e.rule(text); err != nil {
			return fmt.Errorf("hosts: %w", err)
		}
	}
	if !slices.Contains([]plugin.Project{plugin.ProjectNone, plugin.ProjectRead, plugin.ProjectWrite}, a.Project) {
		return fmt.Errorf("project = %q: write read or write", a.Project)
	}
	if _, err := a.address(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(a.Credentials)) {
		if err := a.Credentials[key].value().Check(); err != nil {
			return fmt.Errorf("credentials.%s: %w", key, err)
		}
	}
	return nil
}

// address is where the plugin's connections come in; the zero one is nowhere.
func (a AccessConfig) address() (netip.AddrPort, error) {
	if a.Listen == "" {
		return netip.AddrPort{}, nil
	}
	address, err := netip.ParseAddrPort(a.Listen)
	if err != nil || address.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("listen = %q: write ADDRESS:PORT, such as 127.0.0.1:8787", a.Listen)
	}
	return address, nil
}

// plugins are the plugins of this installation, the user's own before the
// built-in ones. One that is not what its operator agreed to has that as its
// error (D-28).
func (r *Runtime) plugins() ([]pluginhost.Found, error) {
	return r.pluginsFor(func(pluginhost.Found) bool { return true })
}

// pluginsOf are the plugins as a session of the group needs them: of those that
// it does not start and nobody was asked about, the contents are not read.
func (r *Runtime) pluginsOf(group nacre.Group) ([]pluginhost.Found, error) {
	return r.pluginsFor(func(f pluginhost.Found) bool { return r.starts(group, f) })
}

// starts tells which plugins a session of the group starts: those with a hook, those
// with a tool that the group may use, and broken ones, so that what is wrong with
// them is recorded. Whoever asks about the same manifest is answered the same.
func (r *Runtime) starts(group nacre.Group, f pluginhost.Found) bool {
	groups, tools := r.config.groups(), f.Manifest.Provides.Tools
	return f.Err != nil || len(f.Manifest.Provides.Hooks) > 0 ||
		slices.ContainsFunc(tools, func(t plugin.ToolSpec) bool { return groups.Allows(group, t.Capability(f.Name, f.Hash)) }) ||
		slices.ContainsFunc(tools, func(t plugin.ToolSpec) bool { return r.checkCapability(t.Capability(f.Name, f.Hash)) != nil })
}

func (r *Runtime) pluginsFor(wanted func(pluginhost.Found) bool) ([]pluginhost.Found, error) {
	lock, lockErr := install.LoadLock(r.lockFile())
	found, err := pluginhost.DiscoverFor(func(f pluginhost.Found) bool {
		return lockErr != nil || lock.Plugins[f.Name] != nil || wanted(f)
	}, r.pluginDirs()...)
	if err != nil {
		return nil, err
	}
	for i := range found {
		err := lockErr
		if err == nil {
			_, err = lock.Confirmed(found[i].Name, found[i].Hash)
		}
		if err != nil && found[i].Err == nil {
			found[i].Err = err
		}
	}
	return found, nil
}

// confirmed is what a person agreed to when the plugin was installed, beside
// what the config says. Nobody was asked about most plugins.
func (r *Runtime) confirmed(f pluginhost.Found) (install.Access, error) {
	lock, err := install.LoadLock(r.lockFile())
	if err != nil {
		return install.Access{}, err
	}
	return lock.Confirmed(f.Name, f.Hash)
}

// lockFile keeps what the operator agreed to as plugins were installed.
func (r *Runtime) lockFile() string { return filepath.Join(r.registry.Paths().State, "plugins.json") }

// reach is what a plugin may reach: what its manifest asks for, as far as
// somebody confirmed it.
type reach struct {
	rules []nacre.EgressRule
	// open are the hosts of the manifest that nobody confirmed.
	open []string
	// listen is where connections for it come in; not valid for nowhere.
	listen  netip.AddrPort
	project plugin.Project
	values  map[string]lease.Source
}

// reachOf joins a manifest and what was confirmed. What was confirmed and is in
// no manifest grants nothing.
func (r *Runtime) reachOf(f pluginhost.Found) reach {
	config, m := r.config.Access[string(f.Name)], f.Manifest
	given, err := r.confirmed(f)
	if err != nil {
		given = install.Access{} // it is not started either
	}
	confirmed := r.confirmedHosts(config.Hosts, given.Hosts)
	var to reach
	for _, text := range m.Hosts {
		found := r.meets(text, confirmed)
		if len(found) == 0 {
			to.open = append(to.open, text)
		}
		for _, rule := range found {
			if !slices.Contains(to.rules, rule) {
				to.rules = append(to.rules, rule)
			}
		}
	}
	to.project = lesser(m.Project, greater(config.Project, plugin.Project(given.Project)))
	if m.Listen {
		to.listen, _ = config.address() // was checked when the config was read
	}
	to.values = map[string]lease.Source{}
	for _, c := range m.Install.Credentials {
		if v, ok := config.Credentials[c.Key]; ok {
			to.values[c.Key] = v.value()
		}
	}
	return to
}

func (r *Runtime) confirmedHosts(config, given []string) []nacre.EgressRule {
	var rules []nacre.EgressRule
	for _, text := range config {
		if rule, err := r.config.Egress.rule(text); err == nil { // was checked when the config was read
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
func (r *Runtime) meets(text string, confirmed []nacre.EgressRule) []nacre.EgressRule {
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
		rule.Pin = r.config.Egress.pin(rule)
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

// idleAccess says what of [access] no plugin asks for: it grants nothing.
func (r *Runtime) idleAccess(found []pluginhost.Found) []string {
	known := map[string]pluginhost.Found{}
	for _, f := range found {
		known[string(f.Name)] = f
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(r.config.Access)) {
		f, ok := known[name]
		if !ok {
			texts = append(texts, fmt.Sprintf("[access.%s]: there is no plugin of this name, so nothing is granted", name))
			continue
		}
		if f.Err == nil {
			texts = append(texts, r.beyond(f)...)
		}
	}
	return texts
}

// warnOfAccess tells of access that no plugin has.
func (s *sealed) warnOfAccess() {
	for _, name := range slices.Sorted(maps.Keys(s.runtime.config.Access)) {
		if !slices.ContainsFunc(s.found.plugins, func(f pluginhost.Found) bool { return string(f.Name) == name }) {
			s.warn(nacre.Step{Kind: nacre.StepResult, Name: "access", IsError: true,
				Text: fmt.Sprintf("[access.%s] in config.toml: there is no plugin of this name, so nothing is granted", name)})
		}
	}
}

// beyond says what the config confirms and the plugin's manifest does not ask for.
func (r *Runtime) beyond(f pluginhost.Found) []string {
	config, m := r.config.Access[string(f.Name)], f.Manifest
	var texts []string
	idle := func(what string) {
		texts = append(texts, fmt.Sprintf("[access.%s] %s: its manifest does not ask for it, so it is not granted", f.Name, what))
	}
	for _, text := range config.Hosts {
		rules := r.confirmedHosts([]string{text}, nil)
		if !slices.ContainsFunc(m.Hosts, func(asked string) bool { return len(r.meets(asked, rules)) > 0 }) {
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
