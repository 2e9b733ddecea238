// Package config is the operator's config.toml: its types, and the checks that
// refuse what cannot be acted on. It is data: nothing is opened or started here.
// A missing file is the zero [Config], which is the safe default.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/tripwire"
	"github.com/nacre-dev/nacre/policy"
)

// Config is the operator's config.toml. It is read from the operator's own
// config folder only: a project cannot bring one. Its zero value is the safe
// default: no tools but the core's own, no egress, no model.
type Config struct {
	// Brain is used by `nacre run` where none is named; empty means the first
	// one that is installed and signed in.
	Brain Brain `toml:"brain"`
	// Checks verify a run's result where the command line names none.
	Checks []string `toml:"checks"`
	// Groups maps a group to what it may use (D-12).
	Groups map[string]Group `toml:"groups"`
	Egress Egress           `toml:"egress"`
	Model  Model            `toml:"model"`
	// Credentials are added outside of sandboxes to what their agents ask of hosts (M-22).
	Credentials []Credential `toml:"credential"`
	Plugging
	// TrustedProjects are folders whose text counts as trusted (K-26).
	TrustedProjects []string `toml:"trusted_projects"`
	// Bounds are what every session is held to.
	Bounds
	// Tripwires says what each does, where it is not the default: contain, notify
	// or block (M-58).
	Tripwires map[string]string `toml:"tripwires"`
	// Sandbox says what starts sandboxes; the default is the native backend (M-11).
	Sandbox Sandbox `toml:"sandbox"`
	// Limits of every sandbox (M-12).
	Limits Limits `toml:"limits"`
	// Serving is what `nacre serve` does.
	Serving
	// MultiTenant serves groups that do not trust each other (M-14).
	MultiTenant bool `toml:"multi_tenant"`
	Interactive
}

// Plugging is what the operator says of plugins and their tools.
type Plugging struct {
	Plugins map[string]map[string]any `toml:"plugins"`
	// Access is what each plugin may reach beyond its own folder (D-21).
	Access map[string]Access `toml:"access"`
	// Tools pins what a tool's author declares of it; the operator's word wins (D-20).
	Tools map[string]ToolPin `toml:"tools"`
}

// Group is what one group may do.
type Group struct {
	// Tools are globs of tool names; none means the core's own tools only.
	Tools []string `toml:"tools"`
	// Roles of the group's sessions, which the policy matches; none means "writer".
	Roles []string `toml:"roles"`
	// Intent and Scope say what the group's sessions are for, for policy to match (K-05).
	Intent string            `toml:"intent"`
	Scope  map[string]string `toml:"scope"`
	// BudgetUSDDay is what its sessions may spend in a day, such as "20"; empty sets no limit (M-04).
	BudgetUSDDay string `toml:"budget_usd_day"`
	// PII are the kinds of personal data that its sessions see as they are (K-27). Public are globs
	// of the tools whose results whoever writes to it may be told unasked (M-50b).
	PII    []string `toml:"pii"`
	Public []string `toml:"public"`
	// VendorTools, where it is set, stands in for that of [model].
	VendorTools *[]string `toml:"vendor_tools"`
	// Results, where it says something, stands in for [results].
	Results Results `toml:"results"`
	// Rates, where it says something, stands in for [rates].
	Rates Rates `toml:"rates"`
}

// ToolPin is what the operator says of a tool in place of its author. What is
// not set stays as it was declared.
type ToolPin struct {
	SafetyClass *nacre.SafetyClass `toml:"safety_class"`
	Sensitivity *nacre.Sensitivity `toml:"sensitivity"`
	Returns     *nacre.Label       `toml:"returns"`
	Sinks       []string           `toml:"sinks"`
	// Kinds are the kinds of sinks, Text, Mints, Authors and Senders those of [nacre.Values].
	Kinds    map[string]nacre.ValueKind `toml:"kinds"`
	Text     []string                   `toml:"text"`
	Mints    []string                   `toml:"mints"`
	Authors  []string                   `toml:"authors"`
	Senders  []string                   `toml:"senders"`
	HighRisk *bool                      `toml:"high_risk"`
	// DeadlineSeconds are for one call of it; 0 leaves that to its author and handler_seconds (K-33).
	DeadlineSeconds int `toml:"deadline_seconds"`
	// PII are the kinds of personal data that all see as they are in what it returns (K-27).
	PII []string `toml:"pii"`
	// Results, where it says something, stands in for that of the group.
	Results Results `toml:"results"`
}

// Apply pins a capability.
func (p ToolPin) Apply(c nacre.Capability) nacre.Capability {
	if p.SafetyClass != nil {
		c.Safety = *p.SafetyClass
	}
	if p.Sensitivity != nil {
		c.Sensitivity = *p.Sensitivity
	}
	if p.Returns != nil {
		c.Returns = *p.Returns
	}
	if p.Sinks != nil {
		c.Sinks, c.Kinds = p.Sinks, maps.Clone(c.Kinds)
		maps.DeleteFunc(c.Kinds, func(sink string, _ nacre.ValueKind) bool { return !slices.Contains(p.Sinks, sink) })
	}
	if p.Kinds != nil {
		c.Kinds = p.Kinds
	}
	for to, places := range map[*[]string][]string{&c.Text: p.Text, &c.Mints: p.Mints, &c.Authors: p.Authors, &c.Senders: p.Senders} {
		if places != nil {
			*to = places
		}
	}
	if p.HighRisk != nil {
		c.HighRisk = *p.HighRisk
	}
	c.Deadline = cmp.Or(time.Duration(p.DeadlineSeconds)*time.Second, c.Deadline)
	return c
}

// Pinned is a capability as the operator says it is, with the time that one call may
// take: no longer than the agent waits for it.
func (c Config) Pinned(capability nacre.Capability) nacre.Capability {
	capability = c.Tools[string(capability.Tool)].Apply(capability)
	capability.Deadline = cmp.Or(capability.Deadline, c.Limits.Handler())
	capability.Deadline = min(capability.Deadline, c.Limits.IPC(capability.Deadline)-time.Second)
	return capability
}

// Egress is what every session may reach, and the operator's pins (M-21).
type Egress struct {
	Allow []string `toml:"allow"`
	// Pin maps "host:port" to the "address:port" that is dialled instead.
	Pin map[string]string `toml:"pin"`
	// Propose = false asks nobody about hosts that were refused (M-23).
	Propose *bool `toml:"propose"`
	// Wildcards are the patterns of hosts that Allow and --egress may name (M-20).
	Wildcards []Wildcard `toml:"wildcard"`
	// Reach are services of this machine that every session may ask for, such as
	// localhost:5432 (U-06).
	Reach []string `toml:"reach"`
	// CA are files of authorities that are trusted besides the system's, outside and
	// inside of sandboxes (U-07).
	CA []string `toml:"ca"`
	// Proxy is a company's, through which nacre reaches the network.
	Proxy UpstreamProxy `toml:"proxy"`
	// Limits of one session's connections.
	Limits  EgressLimits `toml:"limits"`
	learned egress.Learned
}

// Landing says what lands of verified work (M-67).
type Landing struct {
	// Held is what becomes of files that programs of the host obey: "wait", the default,
	// or "leave-out". To take them, a person says so each time.
	Held string `toml:"held"`
}

func (l Landing) check() error {
	if l.Held != "" && l.Held != "wait" && l.Held != "leave-out" {
		return fmt.Errorf("[landing] held = %.20q: write wait or leave-out; nacre run --held take is for one run", l.Held)
	}
	return nil
}

// Model is how the gateway reaches the model. A key is named, never written here.
type Model struct {
	BaseURL string `toml:"base_url"`
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
	Name    string `toml:"name"`
	// Login is "subscription" where the gateway may use the logins of nacre login (U-02).
	Login string `toml:"login"`
	// LoginURL is a server on this machine that stands in for the vendors'.
	LoginURL string `toml:"login_url"`
	// Upstreams are further places that answer, or other ones.
	Upstreams []Upstream `toml:"upstream"`
	// Prices is a file of prices beside config.toml; empty means the built-in ones.
	Prices string `toml:"prices"`
	// Context is how many tokens the model reads at once, where the brain does not
	// know it; 0 means the brain's own.
	Context int64 `toml:"context"`
	// MaxTokens is how many tokens all requests of a run may have together; it
	// holds for nacre's own loops. 0 means 50 million.
	MaxTokens int64 `toml:"max_tokens"`
	// BudgetUSD is what one session may spend, such as "1.50"; empty means 5.
	BudgetUSD string `toml:"budget_usd"`
	// BudgetUSDDay is what all sessions of all groups may spend in a day; empty
	// sets no limit.
	BudgetUSDDay string `toml:"budget_usd_day"`
	// DayZone is the time zone in which days begin, such as "Europe/Berlin";
	// empty means UTC.
	DayZone string `toml:"day_zone"`
	// VendorTools are the tools of the vendor's own that brains may use:
	// web_search, web_fetch; none is the default.
	VendorTools []string `toml:"vendor_tools"`
}

// defaultKeyEnv holds the key unless the config names another place.
const defaultKeyEnv = "ANTHROPIC_API_KEY"

// DefaultModelURL is where model calls go unless the config says otherwise.
const DefaultModelURL = "https://api.anthropic.com"

// valueHelp is said wherever a value may have been written, and repeats none.
const valueHelp = "a credential says where its value is, with value_env, value_file, value_cmd, value_keyring, value_age or value_credential; the value itself does not belong in this file"

// isAccessValue tells the keys below [access.NAME.credentials].
func isAccessValue(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) >= 3 && parts[0] == "access" && slices.Contains(parts[1:], "credentials")
}

// Load reads config.toml in dir. A missing file is the zero Config, and one in another format is
// refused: nothing would hold that it says. An unknown key, a wrong type or a secret in the file is
// an error that names the place (M-61).
func Load(dir string) (Config, error) {
	for _, name := range []string{"config.yaml", "config.yml", "config.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return Config{}, fmt.Errorf("%s: nacre reads %s alone, and nothing that this file says holds: write it there, and remove the file", filepath.Join(dir, name), FileName)
		}
	}
	c, err := Read(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	return c, err
}

// FileName is the config's, in the operator's config folder.
const FileName = "config.toml"

// Read reads and checks a config file, which is there.
func Read(path string) (Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	if err := atom.CheckText(data); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	var c Config
	meta, err := toml.Decode(string(data), &c)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) && isAccessValue(syntax.LastKey) {
			return Config{}, fmt.Errorf("%s:%d: %q: %s", path, syntax.Position.Line, syntax.LastKey, valueHelp)
		}
		if _, key, found := strings.Cut(err.Error(), `(last key "`); found && isAccessValue(key) { // of another type than it should be
			return Config{}, fmt.Errorf("%s: %w: %s", path, err, valueHelp)
		}
		if errors.As(err, &syntax) {
			return Config{}, fmt.Errorf("%s:%d: %s", path, syntax.Position.Line, syntax.Message)
		}
		return Config{}, fmt.Errorf("%s: %w", path, atom.WrongType(err))
	}
	// What is below a plugin's name is the plugin's: its manifest's schema knows the keys.
	unknown := slices.DeleteFunc(append(meta.Undecoded(), c.Brain.unknown...), func(k toml.Key) bool { return len(k) > 2 && k[0] == "plugins" })
	if len(unknown) > 0 {
		if unknown[0][0] == "credential" || isAccessValue(unknown[0].String()) {
			return Config{}, fmt.Errorf("%s: %sunknown key %q: %s", path, atom.LineOf(data, unknown[0]), unknown[0], valueHelp)
		}
		return Config{}, fmt.Errorf("%s: %w", path, unknownKey(data, unknown[0]))
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c Config) check() error {
	if err := errors.Join(c.Sandbox.Check(), c.Serve.check(), lease.CheckVariable("[store] url_env", c.Store.URLEnv), c.checkTenants(), c.checkEvents(), c.checkAgents(), c.Bounds.check()); err != nil {
		return err
	}
	for name, pin := range c.Tools {
		_, err := nacre.ParseToolName(name)
		if err = errors.Join(err, policy.CheckPII(pin.PII), c.Limits.checkDeadline(pin.DeadlineSeconds)); err != nil {
			return fmt.Errorf("[tools.%s]: %w", name, err)
		}
	}
	for _, dir := range c.TrustedProjects {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("trusted_projects: %q is not an absolute path", dir)
		}
	}
	if c.Model.KeyEnv != "" && c.Model.KeyFile != "" {
		return errors.New("model: name key_env or key_file, not both")
	}
	if strings.HasPrefix(c.Model.KeyEnv, "sk-") {
		return errors.New("model.key_env names a variable; a key itself does not belong in this file")
	}
	_, upstream := c.Model.Upstream()
	if err := errors.Join(upstream, c.checkBudgets(), c.checkResults(), c.ToolGroups().Check(), c.Brain.check(), c.CheckCredentials(), c.checkAccess(), c.Model.checkLogin()); err != nil {
		return err
	}
	if c.Model.Context < 0 || c.Model.MaxTokens < 0 {
		return errors.New("model.context and model.max_tokens: use positive numbers, or leave them out")
	}
	for _, u := range c.Model.Upstreams {
		if err := u.check(); err != nil {
			return err
		}
	}
	for _, w := range c.Egress.Wildcards {
		if err := w.check(); err != nil {
			return err
		}
	}
	if err := errors.Join(c.Limits.check(), c.Landing.check(), c.Egress.Limits.check(), c.Egress.Proxy.check()); err != nil {
		return err
	}
	_, reactions := c.Reactions()
	_, hosts := c.Egress.Rules(nil)
	_, services := c.Egress.Services(nil)
	_, home := c.Home.Bytes()
	return errors.Join(reactions, hosts, services, home)
}

// ToolGroups are the tools of each group, as policy asks for them.
func (c Config) ToolGroups() policy.Groups {
	groups, personal := policy.Groups{}, map[nacre.ToolName][]string{}
	for tool, pin := range c.Tools {
		if pin.PII != nil {
			personal[nacre.ToolName(tool)] = pin.PII
		}
	}
	for name, g := range c.Groups {
		groups[nacre.Group(name)] = policy.GroupTools{Tools: g.Tools, PII: g.PII, PIIOf: personal, Public: g.Public}
	}
	return groups
}

// Upstream is where model calls go.
func (m Model) Upstream() (*url.URL, error) {
	base := m.BaseURL
	if base == "" {
		base = DefaultModelURL
	}
	upstream, err := url.Parse(base)
	if err != nil || upstream.Host == "" || (upstream.Scheme != "https" && upstream.Scheme != "http") {
		return nil, fmt.Errorf("model.base_url = %q: write https://HOST", base)
	}
	return upstream, nil
}

// Rules are what the config allows, then what the command line adds, with the operator's pins.
func (e Egress) Rules(more []string) ([]nacre.EgressRule, error) {
	pins, err := e.PinnedAddresses()
	if err != nil {
		return nil, err
	}
	texts, err := e.expanded(slices.Concat(e.Allow, e.learned.Hosts(), more))
	if err != nil {
		return nil, err
	}
	var rules []nacre.EgressRule
	for _, text := range texts {
		rule, err := e.Rule(text)
		if err != nil {
			return nil, err
		}
		rule.Pin = pins[pinKey(rule)]
		if !rule.Pin.IsValid() && posture.Loopback(rule.Host) {
			return nil, fmt.Errorf("egress %q: the name leads to this machine alone, and no address of it is let through unnamed: pin it, with %q = \"ADDRESS:PORT\" in [egress.pin]", text, pinKey(rule))
		}
		if !slices.Contains(rules, rule) { // once is enough, in whatever case it was written
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// PinnedAddresses are the addresses that hosts are pinned to, by "host:port".
func (e Egress) PinnedAddresses() (map[string]netip.AddrPort, error) {
	pins := map[string]netip.AddrPort{}
	for name, address := range e.Pin {
		rule, err := posture.ParseEgress(name)
		if err != nil {
			return nil, fmt.Errorf("egress.pin: %w", err)
		}
		pin, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("egress.pin %q = %q: write ADDRESS:PORT", name, address)
		}
		pins[pinKey(rule)] = pin
	}
	return pins, nil
}

// PinOf is what the operator pins a rule to, if anything.
func (e Egress) PinOf(rule nacre.EgressRule) netip.AddrPort {
	pins, err := e.PinnedAddresses()
	if err != nil {
		return netip.AddrPort{} // the config was refused before anything began
	}
	if pin, pinned := pins[pinKey(rule)]; pinned {
		return pin
	}
	return e.service(rule).Pin
}

func pinKey(r nacre.EgressRule) string { return fmt.Sprintf("%s:%d", r.Host, r.Port) }

// AskTTL is how long a question waits for its answer.
func (c Config) AskTTL() time.Duration { return time.Duration(c.AskSeconds) * time.Second }

// KeySource names where the key comes from, never the key.
func (m Model) KeySource() string {
	return cmp.Or(m.KeyFile, m.KeyEnv, defaultKeyEnv)
}

// ModelKey reads the key from where the config says it is.
func (m Model) ModelKey(getenv func(string) string) (nacre.Secret, error) {
	if m.KeyFile != "" {
		data, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return nacre.Secret{}, fmt.Errorf("model.key_file: %w", err)
		}
		return nacre.NewSecret(strings.TrimSpace(string(data))), nil
	}
	return nacre.NewSecret(getenv(m.KeySource())), nil
}

// Reactions are the operator's word over the default.
func (c Config) Reactions() (tripwire.Reactions, error) {
	all := tripwire.Default()
	for name, text := range c.Tripwires {
		if _, known := all[tripwire.Wire(name)]; !known {
			return nil, Errorf("[tripwires] %s: no such tripwire: one of %v", name, tripwire.Wires())
		}
		var r tripwire.Reaction
		if err := r.UnmarshalText([]byte(text)); err != nil {
			return nil, Errorf("[tripwires] %s: %w", name, err)
		}
		all[tripwire.Wire(name)] = r
	}
	return all, nil
}
