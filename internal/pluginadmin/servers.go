package pluginadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// MaxServers is the longest file of mcpServers that is read, in bytes.
const MaxServers = 1 << 20

// server is an MCP server as agents' own files name it. Its arguments, environment and headers
// are not read: what runs is the plugin, which the operator has seen, and they may hold secrets.
type server struct {
	Command string `json:"command"`
	URL     string `json:"url"`
}

// CheckServers reads a file of mcpServers, as agents take it with --mcp-config. It refuses one with
// a server that is not a plugin of the same name, sealed and pinned, whose tools the group may use.
// It names what makes each of them one, and starts nothing (M-01).
func CheckServers(inst *installation.Installation, group nacre.Group, data []byte) error {
	var file struct {
		Servers map[string]server `json:"mcpServers"`
	}
	if err := wire.Check(data, wire.Limits{Message: MaxServers, CaseSensitive: true}); err != nil {
		return config.Errorf("--mcp-config: %w", err)
	}
	if err := json.Unmarshal(data, &file); err != nil || file.Servers == nil {
		return config.Errorf(`--mcp-config: not a file of MCP servers: {"mcpServers": {"NAME": {"command": …}}}`)
	}
	plugins, err := access.Plugins(inst)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		err = errors.Join(err, file.Servers[name].check(inst, group, name, plugins))
	}
	if err != nil {
		return config.Errorf("--mcp-config: %w", err)
	}
	return nil
}

// check refuses a server that is no plugin that sessions of the group start.
func (s server) check(inst *installation.Installation, group nacre.Group, name string, plugins []pluginhost.Found) error {
	called, err := nacre.ParsePluginName(strings.NewReplacer(" ", "_", ".", "_", "/", "_", "@", "").Replace(strings.ToLower(name)))
	if err != nil {
		return fmt.Errorf("server %.80q: no plugin can be called that: %w", name, err)
	}
	at := slices.IndexFunc(plugins, func(f pluginhost.Found) bool { return f.Name == called })
	switch {
	case (s.Command == "") == (s.URL == ""):
		return fmt.Errorf("server %.80q has a command or a url, and not both", name)
	case at < 0 && s.URL != "":
		return fmt.Errorf("server %.80q is not a plugin yet: write its manifest with \"mcp\": {\"url\": …} into a folder %s, and nacre plugin confirm %s (docs/plugins.md)", name, called, called)
	case at < 0:
		return fmt.Errorf("server %.80q is not a plugin yet: nacre plugin new %s --mcp -- and its command makes one, sealed and pinned", name, called)
	}
	found := plugins[at]
	mcp, failed := found.Manifest.MCP, unfit(inst, found)
	switch {
	case failed != nil:
		return fmt.Errorf("server %.80q: plugin %s cannot start: %w", name, called, failed)
	case mcp.URL == "" && len(mcp.Command) == 0:
		return fmt.Errorf("server %.80q: plugin %s is not an MCP server", name, called)
	case s.URL != mcp.URL:
		return fmt.Errorf("server %.80q is not where plugin %s is: nacre plugin show %s", name, called, called)
	case !usable(inst, group, found):
		return fmt.Errorf("server %.80q: group %s may use none of the tools of plugin %s: name some among the tools of [groups.%s] in config.toml", name, group, called, group)
	}
	return nil
}

// usable tells whether a group may use any tool of a plugin.
func usable(inst *installation.Installation, group nacre.Group, f pluginhost.Found) bool {
	groups := access.ToolGroups(inst, inst.Options.Now())
	return slices.ContainsFunc(f.Manifest.Provides.Tools, func(t plugin.ToolSpec) bool {
		return groups.Allows(group, t.Capability(f.Name, f.Hash))
	})
}
