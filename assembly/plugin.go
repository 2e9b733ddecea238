package assembly

import (
	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// PluginStatus is what a person sees of a plugin.
type PluginStatus struct {
	Name    nacre.PluginName `json:"name"`
	Version string           `json:"version"`
	// Dir is where it lies.
	Dir string `json:"dir"`
	// State is "ready" or "failed".
	State string `json:"state"`
}

// Plugins are the plugins of the installation, by name. None is started.
func (r *Runtime) Plugins() ([]PluginStatus, error) {
	found, err := pluginhost.Discover(r.pluginDirs()...)
	if err != nil {
		return nil, err
	}
	list := []PluginStatus{}
	for _, f := range found {
		state := "ready"
		if f.Err != nil {
			state = "failed"
		}
		list = append(list, PluginStatus{Name: f.Name, Version: f.Manifest.Version, Dir: f.Dir, State: state})
	}
	return list, nil
}
