// Package pluginadmin is what the operator does with plugins: list, try, set up and
// verify them, and give them credentials.
package pluginadmin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// The states of a plugin that is not running.
const (
	// PluginReady has all that it wants.
	PluginReady = "ready"
	// PluginWants starts, and does without what nobody confirmed.
	PluginWants = "wants"
	// PluginFailed cannot be started.
	PluginFailed = "failed"
)

// PluginStatus is what a person sees of a plugin. Nothing was started for it.
type PluginStatus struct {
	Name        nacre.PluginName `json:"name"`
	Version     string           `json:"version"`
	Description string           `json:"description,omitempty"`
	// Dir is where it lies, Hash pins every file there.
	Dir   string           `json:"dir"`
	Hash  string           `json:"hash,omitempty"`
	Tools []nacre.ToolName `json:"tools"`
	// Rules are what holds for each of them, in the same order.
	Rules []ToolRule `json:"tool_rules"`
	// State is "ready", "wants" or "failed"; Category and Reason say why it failed (D-23).
	State    string `json:"state"`
	Category string `json:"category,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Wants is what its manifest asks for, Confirmed what it gets of that.
	Wants     PluginAccess `json:"wants"`
	Confirmed PluginAccess `json:"confirmed"`
	// Missing says in words what it wants and does not get, each with what to do.
	Missing []string `json:"missing,omitempty"`

	credentials []plugin.Credential
}

// ToolRule is what holds for calls of a tool, the operator's pins included (F-76).
type ToolRule struct {
	Tool    nacre.ToolName    `json:"tool"`
	Class   nacre.SafetyClass `json:"safety_class"`
	Asked   bool              `json:"asked"`
	Returns nacre.Label       `json:"returns"`
	// Calls of it are how many a session may make in Seconds.
	Calls   int `json:"calls"`
	Seconds int `json:"seconds"`
	// Deadline is how many seconds one of them may take.
	Deadline int `json:"deadline_seconds"`
}

func ruleOf(inst *installation.Installation, c nacre.Capability) ToolRule {
	rate := inst.Config.RateOf(c)
	return ToolRule{Tool: c.Tool, Class: c.Safety, Asked: c.HighRisk, Returns: c.Returns, Calls: rate.Calls, Seconds: int(rate.Window / time.Second), Deadline: int(c.Deadline / time.Second)}
}

// PluginAccess is what a plugin reaches beyond its own folder.
type PluginAccess struct {
	Hosts       []string `json:"hosts,omitempty"`
	Credentials []string `json:"credentials,omitempty"`
	// Env are variables in which an MCP server finds credentials, as NAME=KEY.
	Env     []string `json:"env,omitempty"`
	Project string   `json:"project,omitempty"`
	Listen  string   `json:"listen,omitempty"`
}

// PluginStatuses are the plugins of the installation, by name.
func PluginStatuses(inst *installation.Installation) ([]PluginStatus, error) {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil, err
	}
	list := []PluginStatus{}
	for _, f := range found {
		list = append(list, pluginStatus(inst, f))
	}
	return list, nil
}

// PluginStatusOf is one of them.
func PluginStatusOf(inst *installation.Installation, name nacre.PluginName) (PluginStatus, error) {
	f, err := access.Named(inst, name)
	if err != nil {
		return PluginStatus{}, err
	}
	return pluginStatus(inst, f), nil
}

func pluginStatus(inst *installation.Installation, f pluginhost.Found) PluginStatus {
	m := f.Manifest
	status := PluginStatus{
		Name: f.Name, Version: m.Version, Description: m.Description, Dir: f.Dir, Hash: f.Hash, Tools: []nacre.ToolName{}, Rules: []ToolRule{}, State: PluginReady,
		Wants: PluginAccess{Hosts: m.Hosts, Project: string(m.Project)}, credentials: m.Install.Credentials,
	}
	for _, t := range m.Provides.Tools {
		status.Tools = append(status.Tools, t.Name)
		status.Rules = append(status.Rules, ruleOf(inst, inst.Config.Pinned(t.Capability(f.Name, f.Hash))))
	}
	for _, c := range m.Install.Credentials {
		status.Wants.Credentials = append(status.Wants.Credentials, c.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(m.MCP.Env)) {
		status.Wants.Env = append(status.Wants.Env, name+"="+m.MCP.Env[name])
	}
	if m.Listen {
		status.Wants.Listen = "an address"
	}
	to := access.ReachOf(inst, f)
	status.Confirmed = PluginAccess{Hosts: to.Hosts(), Credentials: slices.Sorted(maps.Keys(to.Values)), Project: string(to.Project)}
	if to.Listen.IsValid() {
		status.Confirmed.Listen = to.Listen.String()
	}
	status.Missing = missing(f, to)
	if len(status.Missing) > 0 {
		status.State = PluginWants
	}
	if err := unfit(inst, f); err != nil {
		status.State, status.Category, status.Reason = PluginFailed, plugin.CategoryConfig, err.Error()
	}
	return status
}

// unfit is why a plugin could not be started, as far as can be told without it.
func unfit(inst *installation.Installation, f pluginhost.Found) error {
	if f.Err != nil {
		return f.Err
	}
	if ok, err := plugin.Compatible(f.Manifest.AppCompat, access.Compatible); err != nil || !ok {
		return fmt.Errorf("app_compat %s excludes this version, %s", f.Manifest.AppCompat, access.Compatible)
	}
	for _, t := range f.Manifest.Provides.Tools {
		if err := access.Check(inst, t.Capability(f.Name, f.Hash)); err != nil {
			return fmt.Errorf("tool %s: %w", t.Name, err)
		}
	}
	return nil
}

// optional marks a credential that a plugin can do without.
const optional = " (optional)"

// missing says what a plugin wants and does not get.
func missing(f pluginhost.Found, to access.Reach) []string {
	var texts []string
	m := f.Manifest
	for _, host := range to.Open {
		if host == plugin.AnyHost {
			texts = append(texts, fmt.Sprintf("hosts of your choice: name them in [access.%s] hosts", f.Name))
			continue
		}
		texts = append(texts, fmt.Sprintf("host %s is not confirmed: add it to [access.%s] hosts", host, f.Name))
	}
	for _, c := range m.Install.Credentials {
		if _, given := to.Values[c.Key]; given {
			continue
		}
		text := fmt.Sprintf("credential %s: nacre plugin setup %s", c.Key, f.Name)
		if !c.Required {
			text = fmt.Sprintf("credential %s%s: nacre plugin setup %s", c.Key, optional, f.Name)
		}
		if c.ObtainURL != "" {
			text += ", from " + c.ObtainURL
		}
		texts = append(texts, text)
	}
	if m.Project != to.Project {
		texts = append(texts, fmt.Sprintf("project: it wants to %s it; confirm with project = %q in [access.%s]", m.Project, m.Project, f.Name))
	}
	if m.Listen && !to.Listen.IsValid() {
		texts = append(texts, fmt.Sprintf("an address for its connections: listen in [access.%s]", f.Name))
	}
	return texts
}
