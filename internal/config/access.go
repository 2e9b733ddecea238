package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// maxAccessHosts is how many hosts one plugin is let out to.
	maxAccessHosts = 64
	// maxAccessKeys is how many credentials one plugin has.
	maxAccessKeys = 64
)

// Access is what one plugin may reach beyond its own folder. It grants at
// most what the plugin's manifest asks for (D-21).
type Access struct {
	// Hosts are those that its handler may reach, written as [egress] allow is.
	Hosts []string `toml:"hosts"`
	// Listen is the ADDRESS:PORT whose connections `nacre serve` hands to it.
	Listen string `toml:"listen"`
	// Project is "read" or "write": the session's project is at /project in its sandbox.
	Project plugin.Project `toml:"project"`
	// Credentials say where the values are of the keys that its manifest lists.
	Credentials map[string]lease.Value `toml:"credentials"`
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

func (a Access) check(e Egress) error {
	if len(a.Hosts) > maxAccessHosts || len(a.Credentials) > maxAccessKeys {
		return fmt.Errorf("at most %d hosts and %d credentials", maxAccessHosts, maxAccessKeys)
	}
	for _, text := range a.Hosts {
		if _, err := e.Rule(text); err != nil {
			return fmt.Errorf("hosts: %w", err)
		}
	}
	if !slices.Contains([]plugin.Project{plugin.ProjectNone, plugin.ProjectRead, plugin.ProjectWrite}, a.Project) {
		return fmt.Errorf("project = %q: write read or write", a.Project)
	}
	if _, err := a.Address(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(a.Credentials)) {
		if err := a.Credentials[key].Source().Check(); err != nil {
			return fmt.Errorf("credentials.%s: %w", key, err)
		}
	}
	return nil
}

// Address is where the plugin's connections come in; the zero one is nowhere.
func (a Access) Address() (netip.AddrPort, error) {
	if a.Listen == "" {
		return netip.AddrPort{}, nil
	}
	address, err := netip.ParseAddrPort(a.Listen)
	if err != nil || address.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("listen = %q: write ADDRESS:PORT, such as 127.0.0.1:8787", a.Listen)
	}
	return address, nil
}
