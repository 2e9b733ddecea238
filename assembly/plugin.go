package assembly

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre"
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

// PluginAccess is what a plugin reaches beyond its own folder.
type PluginAccess struct {
	Hosts       []string `json:"hosts,omitempty"`
	Credentials []string `json:"credentials,omitempty"`
	// Env are variables in which an MCP server finds credentials, as NAME=KEY.
	Env     []string `json:"env,omitempty"`
	Project string   `json:"project,omitempty"`
	Listen  string   `json:"listen,omitempty"`
}

// Plugins are the plugins of the installation, by name.
func (r *Runtime) Plugins() ([]PluginStatus, error) {
	found, err := r.plugins()
	if err != nil {
		return nil, err
	}
	list := []PluginStatus{}
	for _, f := range found {
		list = append(list, r.statusOf(f))
	}
	return list, nil
}

// Plugin is one of them.
func (r *Runtime) Plugin(name nacre.PluginName) (PluginStatus, error) {
	f, err := r.plugin(name)
	if err != nil {
		return PluginStatus{}, err
	}
	return r.statusOf(f), nil
}

func (r *Runtime) statusOf(f pluginhost.Found) PluginStatus {
	m := f.Manifest
	status := PluginStatus{
		Name: f.Name, Version: m.Version, Description: m.Description, Dir: f.Dir, Hash: f.Hash, Tools: []nacre.ToolName{}, State: PluginReady,
		Wants: PluginAccess{Hosts: m.Hosts, Project: string(m.Project)}, credentials: m.Install.Credentials,
	}
	for _, t := range m.Provides.Tools {
		status.Tools = append(status.Tools, t.Name)
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
	to := r.reachOf(f)
	status.Confirmed = PluginAccess{Hosts: ruleTexts(to.rules), Credentials: slices.Sorted(maps.Keys(to.values)), Project: string(to.project)}
	if to.listen.IsValid() {
		status.Confirmed.Listen = to.listen.String()
	}
	status.Missing = missing(f, to)
	if len(status.Missing) > 0 {
		status.State = PluginWants
	}
	if err := r.unfit(f); err != nil {
		status.State, status.Category, status.Reason = PluginFailed, plugin.CategoryConfig, err.Error()
	}
	return status
}

// unfit is why a plugin could not be started, as far as can be told without it.
func (r *Runtime) unfit(f pluginhost.Found) error {
	if f.Err != nil {
		return f.Err
	}
	if ok, err := plugin.Compatible(f.Manifest.AppCompat, compatible); err != nil || !ok {
		return fmt.Errorf("app_compat %s excludes this version, %s", f.Manifest.AppCompat, compatible)
	}
	for _, t := range f.Manifest.Provides.Tools {
		if err := r.checkCapability(t.Capability(f.Name, f.Hash)); err != nil {
			return fmt.Errorf("tool %s: %w", t.Name, err)
		}
	}
	return nil
}

// missing says what a plugin wants and does not get.
func missing(f pluginhost.Found, to reach) []string {
	var texts []string
	m := f.Manifest
	for _, host := range to.open {
		if host == plugin.AnyHost {
			texts = append(texts, fmt.Sprintf("hosts of your choice: name them in [access.%s] hosts", f.Name))
			continue
		}
		texts = append(texts, fmt.Sprintf("host %s is not confirmed: add it to [access.%s] hosts", host, f.Name))
	}
	for _, c := range m.Install.Credentials {
		if _, given := to.values[c.Key]; given {
			continue
		}
		text := fmt.Sprintf("credential %s: nacre plugin setup %s", c.Key, f.Name)
		if !c.Required {
			text = fmt.Sprintf("credential %s (optional): nacre plugin setup %s", c.Key, f.Name)
		}
		if c.ObtainURL != "" {
			text += ", from " + c.ObtainURL
		}
		texts = append(texts, text)
	}
	if m.Project != to.project {
		texts = append(texts, fmt.Sprintf("project: it wants to %s it; confirm with project = %q in [access.%s]", m.Project, m.Project, f.Name))
	}
	if m.Listen && !to.listen.IsValid() {
		texts = append(texts, fmt.Sprintf("an address for its connections: listen in [access.%s]", f.Name))
	}
	return texts
}
