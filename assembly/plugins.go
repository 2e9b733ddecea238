package assembly

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/pluginadmin"
)

// PluginAdmin is an installation's plugins, for whoever looks after them.
type PluginAdmin struct{ inst *installation.Installation }

// Plugins are the plugins of the installation, by name.
func (p PluginAdmin) Plugins() ([]PluginStatus, error) {
	return pluginadmin.PluginStatuses(p.inst)
}

// Plugin is one of them.
func (p PluginAdmin) Plugin(name nacre.PluginName) (PluginStatus, error) {
	return pluginadmin.PluginStatusOf(p.inst, name)
}

// PluginPlaces are those of this installation.
func (p PluginAdmin) PluginPlaces() PluginPlaces {
	return pluginadmin.PlacesOf(p.inst)
}

// TestPlugin runs a plugin in the sandbox that sessions give it, without a
// network, on data of its own, and looks whether it keeps the protocol.
func (p PluginAdmin) TestPlugin(ctx context.Context, trial PluginTrial) (PluginReport, error) {
	return pluginadmin.TestPlugin(ctx, p.inst, trial)
}

// OwnTools are the names of the tools that nacre itself brings: no plugin's tool
// can have one (D-25).
func (p PluginAdmin) OwnTools() ([]nacre.ToolName, error) {
	return intrinsic.Names()
}

// ReloadPlugin replaces a plugin by what its folder is now, in each live session
// that runs it and in `nacre serve` (D-27). What was not replaced goes on as it was.
func (p PluginAdmin) ReloadPlugin(ctx context.Context, name nacre.PluginName) ([]PluginReload, error) {
	return hosting.ReloadEverywhere(ctx, p.inst, name)
}

// PluginCredentials are those that a plugin's manifest lists.
func (p PluginAdmin) PluginCredentials(name nacre.PluginName) ([]PluginCredential, error) {
	return pluginadmin.PluginCredentials(p.inst, name)
}

// CredentialWants are the credentials that plugins in use lack: all of them, or
// those named. It reads those that are given, and shows none.
func (p PluginAdmin) CredentialWants(ctx context.Context, names []nacre.PluginName) ([]CredentialWant, error) {
	return pluginadmin.CredentialWants(ctx, p.inst, names)
}

// StoreCredential keeps a value for a plugin in a file of its operator's own,
// and says which. A value that could not be used is refused, without it.
func (p PluginAdmin) StoreCredential(ctx context.Context, name nacre.PluginName, key string, value nacre.Secret) (string, error) {
	return pluginadmin.StoreCredential(ctx, p.inst, name, key, value)
}

// AddAccess makes config.toml say where files with a plugin's credentials are, and
// reports whether it did. What would not load, or would say anything else than
// before, is not written, and neither is a file that is a link, which lies
// elsewhere for a reason.
func (p PluginAdmin) AddAccess(name nacre.PluginName, keys []string, files map[string]string) (bool, error) {
	return pluginadmin.AddAccess(p.inst, name, keys, files)
}

// VerifyPlugins starts each plugin that can verify itself and asks it whether
// its credentials and its network are such that it can work (D-29). Each has 10 s
// to start and 10 s to answer; they are asked at the same time.
func (p PluginAdmin) VerifyPlugins(ctx context.Context) []Finding {
	return pluginadmin.VerifyPlugins(ctx, p.inst)
}
