package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/policy"
)

// Config is the operator's config.toml. It is read from the operator's own
// config folder only: a project cannot bring one. Its zero value is the safe
// default: no tools but the core's own, no egress, no model.
type Config struct {
	// Brain is used by `nacre run` where none is named; empty means the first
	// one that is installed and signed in.
	Brain BrainConfig `toml:"brain"`
	// Checks verify a run's result where the command line names none.
	Checks []string `toml:"checks"`
	// Groups maps a group to what it may use (D-12).
	Groups map[string]GroupConfig `toml:"groups"`
	Egress EgressConfig           `toml:"egress"`
	Model  ModelConfig            `toml:"model"`
	// Credentials are added outside of sandboxes to what their agents ask of hosts (M-22).
	Credentials []CredentialConfig        `toml:"credential"`
	Plugins     map[string]map[string]any `toml:"plugins"`
	// Access is what each plugin may reach beyond its own folder (D-21).
	Access map[string]AccessConfig `toml:"access"`
	// Tools pins what a tool's author declares of it; the operator's word wins (D-20).
	Tools map[string]ToolPin `toml:"tools"`
	// TrustedProjects are folders whose text counts as trusted (K-26).
	TrustedProjects []string `toml:"trusted_projects"`
	// OutputTokens is how much of results one session may see; 0 means 100,000 (K-16).
	OutputTokens int `toml:"output_tokens"`
	// AskSeconds is how long a person has to answer; 0 means 300 (D-13).
	AskSeconds int `toml:"ask_seconds"`
	// Tripwires says what each does, where it is not the default: contain, notify
	// or block (M-58).
	Tripwires map[string]string `toml:"tripwires"`
	// Sandbox says what starts sandboxes; the default is the native backend (M-11).
	Sandbox SandboxConfig `toml:"sandbox"`
	// Limits of every sandbox (M-12).
	Limits LimitsConfig `toml:"limits"`
	// Serve bounds what `nacre serve` does for each group.
	Serve ServeConfig `toml:"serve"`
	// MultiTenant serves groups that do not trust each other (M-14).
	MultiTenant bool `toml:"multi_tenant"`
	// Routes say which group a message belongs to (D-33).
	Routes []RouteConfig `toml:"route"`
	// Events are the endpoints for outsiders (D-32).
	Events EventsConfig `toml:"events"`
}

// GroupConfig is what one group may do.
type GroupConfig struct {
	// Tools are globs of tool names; none means the core's own tools only.
	Tools []string `toml:"tools"`
	// Roles of the group's sessions, which the policy matches; none means "writer".
	Roles []string `toml:"roles"`
	// Intent and Scope say what the group's sessions are for, for policy to match (K-05).
	Intent string            `toml:"intent"`
	Scope  map[string]string `toml:"scope"`
	// BudgetUSDDay is what all sessions of the group may spend in a day, such as
	// "20"; empty sets no limit beside that of all groups (M-04).
	BudgetUSDDay string `toml:"budget_usd_day"`
	// VendorTools, where it is set, stands in for that of [model].
	VendorTools *[]string `toml:"vendor_tools"`
}

// ToolPin is what the operator says of a tool in place of its author. What is
// not set stays as it was declared.
type ToolPin struct {
	SafetyClass *nacre.SafetyClass `toml:"safety_class"`
	Sensitivity *nacre.Sensitivity `toml:"sensitivity"`
	Returns     *nacre.Label       `toml:"returns"`
	Sinks       []string           `toml:"sinks"`
	HighRisk    *bool              `toml:"high_risk"`
}

// apply pins a capability.
func (p ToolPin) apply(c nacre.Capability) nacre.Capability {
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
		c.Sinks = p.Sinks
	}
	if p.HighRisk != nil {
		c.HighRisk = *p.HighRisk
	}
	return c
}

// EgressConfig is what every session may reach, and the operator's pins (M-21).
type EgressConfig struct {
	Allow []string `toml:"allow"`
	// Pin maps "host:port" to the "address:port" that is dialled instead.
	Pin map[string]string `toml:"pin"`
	// Propose = false asks nobody about hosts that were refused (M-23).
	Propose *bool `toml:"propose"`
	// Wildcards are the patterns of hosts that Allow and --egress may name (M-20).
	Wildcards []WildcardConfig `toml:"wildcard"`
}

// ModelConfig is how the gateway reaches the model. A key is named, never written here.
type ModelConfig struct {
	BaseURL string `toml:"base_url"`
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
	Name    string `toml:"name"`
	// Upstreams are further places that answer, or other ones.
	Upstreams []UpstreamConfig `toml:"upstream"`
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
const valueHelp = "a credential says where its value is, with value_env, value_file or value_cmd; the value itself does not belong in this file"

// isAccessValue tells the keys below [access.NAME.credentials].
func isAccessValue(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) >= 3 && parts[0] == "access" && slices.Contains(parts[1:], "credentials")
}

// LoadConfig reads config.toml in dir. A missing file is the zero Config; an
// unknown key, a wrong type or a secret in the file is an error that names the
// place (M-61).
func LoadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.toml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, err
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
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	// What is below a plugin's name is the plugin's: its manifest's schema knows the keys.
	unknown := slices.DeleteFunc(meta.Undecoded(), func(k toml.Key) bool { return len(k) > 2 && k[0] == "plugins" })
	if len(unknown) > 0 {
		if unknown[0][0] == "credential" || isAccessValue(unknown[0].String()) {
			return Config{}, fmt.Errorf("%s: unknown key %q: %s", path, unknown[0], valueHelp)
		}
		if table := unknown[0][:len(unknown[0])-1]; len(table) > 0 { // the keys of the whole would lead astray
			return Config{}, fmt.Errorf("%s: unknown key %q: [%s] has no %q; docs/config.md has the keys of each table", path, unknown[0], table, unknown[0][len(table)])
		}
		return Config{}, fmt.Errorf("%s: unknown key %q: nacre config keys are brain, checks, groups, tools, trusted_projects, egress, model, credential, plugins, access, output_tokens, ask_seconds, tripwires, sandbox, multi_tenant, route, events, serve", path, unknown[0])
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c Config) check() error {
	for name := range c.Groups {
		if _, err := nacre.ParseGroup(name); err != nil {
			return err
		}
	}
	if err := errors.Join(c.Sandbox.check(), c.Serve.check(), c.checkTenants(), c.checkEvents()); err != nil {
		return err
	}
	if c.AskSeconds < 0 || c.AskSeconds > 86400 {
		return fmt.Errorf("ask_seconds = %d: use 1 to 86400", c.AskSeconds)
	}
	if c.OutputTokens < 0 {
		return fmt.Errorf("output_tokens = %d: use a positive number, or leave it out", c.OutputTokens)
	}
	for name := range c.Tools {
		if _, err := nacre.ParseToolName(name); err != nil {
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
	if err := c.groups().Check(); err != nil {
		return err
	}
	if err := errors.Join(c.checkCredentials(), c.checkAccess()); err != nil {
		return err
	}
	if c.Model.Context < 0 || c.Model.MaxTokens < 0 {
		return errors.New("model.context and model.max_tokens: use positive numbers, or leave them out")
	}
	if _, err := c.Model.upstream(); err != nil {
		return err
	}
	if err := c.checkBudgets(); err != nil {
		return err
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
	if err := c.Limits.check(); err != nil {
		return err
	}
	if _, err := c.reactions(); err != nil {
		return err
	}
	_, err := c.Egress.rules(nil)
	return err
}

func (c Config) groups() policy.Groups {
	groups := policy.Groups{}
	for name, g := range c.Groups {
		groups[nacre.Group(name)] = policy.GroupTools{Tools: g.Tools}
	}
	return groups
}

// upstream is where model calls go.
func (m ModelConfig) upstream() (*url.URL, error) {
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

// rules are what the config allows, then what the command line adds, with the operator's pins.
func (e EgressConfig) rules(more []string) ([]nacre.EgressRule, error) {
	pins, err := e.pins()
	if err != nil {
		return nil, err
	}
	var rules []nacre.EgressRule
	for _, text := range append(append([]string{}, e.Allow...), more...) {
		rule, err := e.rule(text)
		if err != nil {
			return nil, err
		}
		rule.Pin = pins[pinKey(rule)]
		rules = append(rules, rule)
	}
	return rules, nil
}

func (e EgressConfig) pins() (map[string]netip.AddrPort, error) {
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

// pin is what the operator pins a rule to, if anything.
func (e EgressConfig) pin(rule nacre.EgressRule) netip.AddrPort {
	pins, err := e.pins()
	if err != nil {
		return netip.AddrPort{} // the config was refused before anything began
	}
	return pins[pinKey(rule)]
}

func pinKey(r nacre.EgressRule) string { return fmt.Sprintf("%s:%d", r.Host, r.Port) }

func (c Config) askTTL() time.Duration { return time.Duration(c.AskSeconds) * time.Second }

// keySource names where the key comes from, never the key.
func (m ModelConfig) keySource() string {
	switch {
	case m.KeyFile != "":
		return m.KeyFile
	case m.KeyEnv != "":
		return m.KeyEnv
	default:
		return defaultKeyEnv
	}
}

// keyHelp says how to give the gateway its key.
func (m ModelConfig) keyHelp() string {
	if m.KeyFile != "" {
		return "write the key to " + m.KeyFile + ", which key_file under [model] in config.toml names"
	}
	return "export " + m.keySource() + "=…   or name a file with it: key_file under [model] in config.toml"
}

// modelKey reads the key from where the config says it is.
func (m ModelConfig) modelKey(getenv func(string) string) (nacre.Secret, error) {
	if m.KeyFile != "" {
		data, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return nacre.Secret{}, fmt.Errorf("model.key_file: %w", err)
		}
		return nacre.NewSecret(strings.TrimSpace(string(data))), nil
	}
	return nacre.NewSecret(getenv(m.keySource())), nil
}
