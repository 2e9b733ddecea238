package access

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/plugin"
	"github.com/nacre-dev/nacre/policy"
)

// Compatible is the version of nacre that a plugin's app_compat is held against.
// It moves with the plugin protocol, not with builds.
const Compatible = "0.1.0"

// Folders are where plugins lie: the user's own win over the built-in ones (D-20).
func Folders(inst *installation.Installation) []string {
	return []string{filepath.Join(inst.Registry.Paths().Data, "plugins"), BuiltIn(inst)}
}

// BuiltIn is where the plugins lie that came with nacre.
func BuiltIn(inst *installation.Installation) string {
	return filepath.Join(filepath.Dir(inst.Options.Executable), "plugins")
}

// Settings are what the config says to each plugin.
func Settings(inst *installation.Installation) (map[nacre.PluginName]json.RawMessage, error) {
	settings := map[nacre.PluginName]json.RawMessage{}
	for name, values := range inst.Config.Plugins {
		raw, err := json.Marshal(values)
		if err != nil {
			return nil, config.Errorf("[plugins.%s]: %w", name, err)
		}
		settings[nacre.PluginName(name)] = raw
	}
	return settings, nil
}

// Plugins are the plugins of this installation, the user's own before the built-in ones. One that
// is not what its operator agreed to has that as its error (D-28), and so has one that cannot live
// beside the others (D-25). Whoever asks which plugins there are sees what sessions see.
func Plugins(inst *installation.Installation) ([]pluginhost.Found, error) {
	return pluginsFor(inst, func(pluginhost.Found) bool { return true })
}

// PluginsOf are the plugins as a session of the group needs them: of those that
// it does not start and nobody was asked about, the contents are not read.
func PluginsOf(inst *installation.Installation, group nacre.Group) ([]pluginhost.Found, error) {
	groups := ToolGroups(inst, inst.Options.Now())
	return pluginsFor(inst, func(f pluginhost.Found) bool { return starts(inst, groups, group, f) })
}

// Starts tells which plugins a session of the group starts. They are those with a tool that the
// group may use, and broken ones, so that what is wrong with them is recorded. Whoever asks about
// the same manifest is answered the same.
func Starts(inst *installation.Installation, group nacre.Group, f pluginhost.Found) bool {
	if f.Hash == "" && f.Err == nil {
		return false // [PluginsOf] had it not read, for nobody starts it
	}
	return starts(inst, ToolGroups(inst, inst.Options.Now()), group, f)
}

func starts(inst *installation.Installation, groups policy.Groups, group nacre.Group, f pluginhost.Found) bool {
	tools := f.Manifest.Provides.Tools
	return f.Err != nil ||
		slices.ContainsFunc(tools, func(t plugin.ToolSpec) bool { return groups.Allows(group, t.Capability(f.Name, f.Hash)) }) ||
		slices.ContainsFunc(tools, func(t plugin.ToolSpec) bool { return Check(inst, t.Capability(f.Name, f.Hash)) != nil })
}

func pluginsFor(inst *installation.Installation, wanted func(pluginhost.Found) bool) ([]pluginhost.Found, error) {
	lock, lockErr := consent.Load(LockFile(inst))
	found, err := pluginhost.DiscoverFor(func(f pluginhost.Found) bool {
		return lockErr != nil || lock.Plugins[f.Name] != nil || wanted(f)
	}, Folders(inst)...)
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
	taken, err := ownTaken()
	return pluginhost.Settle(found, taken), err
}

// Colliding are the plugins that are left out because of another one, or of what is
// nacre's own.
func Colliding(inst *installation.Installation) []pluginhost.Found {
	found, err := pluginsFor(inst, func(pluginhost.Found) bool { return false })
	if err != nil {
		return nil // whoever starts plugins was told
	}
	return slices.DeleteFunc(found, func(f pluginhost.Found) bool { return !collides(f) })
}

// collides reports whether a plugin is left out because of what is there beside it.
func collides(f pluginhost.Found) bool {
	var collision *pluginhost.Collision
	return errors.As(f.Err, &collision)
}

// confirmed is what a person agreed to when the plugin was installed, beside
// what the config says. Nobody was asked about most plugins.
func confirmed(inst *installation.Installation, f pluginhost.Found) (consent.Access, error) {
	lock, err := consent.Load(LockFile(inst))
	if err != nil {
		return consent.Access{}, err
	}
	return lock.Confirmed(f.Name, f.Hash)
}

// LockFile keeps what the operator agreed to as plugins were installed.
func LockFile(inst *installation.Installation) string {
	return filepath.Join(inst.Registry.Paths().State, "plugins.json")
}

// Named finds a plugin by name.
func Named(inst *installation.Installation, name nacre.PluginName) (pluginhost.Found, error) {
	found, err := Plugins(inst)
	for _, f := range found {
		if f.Name == name {
			return f, nil
		}
	}
	if err == nil {
		err = config.Errorf("there is no plugin %s: nacre plugin list", name)
	}
	return pluginhost.Found{}, err
}

// Check refuses what the kernel would not take, so that one plugin fails and not
// the session (D-23).
func Check(inst *installation.Installation, c nacre.Capability) error {
	return kernel.Check(inst.Config.Tools[string(c.Tool)].Apply(c))
}
