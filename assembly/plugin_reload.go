package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/session"
)

// PluginReload is what became of a plugin in one session.
type PluginReload struct {
	Session nacre.SessionID `json:"session"`
	// Error is why it goes on as it was; empty where it was replaced.
	Error string `json:"error,omitempty"`
}

// ReloadPlugin replaces a plugin by what its folder is now, in each live session
// that runs it and in `nacre serve` (D-27). What was not replaced goes on as it was.
func (r *Runtime) ReloadPlugin(ctx context.Context, name nacre.PluginName) ([]PluginReload, error) {
	if _, err := r.plugin(name); err != nil {
		return nil, err
	}
	list, err := r.registry.List()
	reloads := []PluginReload{}
	for _, known := range list {
		remote, err := session.Dial(known)
		if err != nil {
			continue // it is not live
		}
		done := PluginReload{Session: known.ID}
		if err := remote.Reload(ctx, name); err != nil {
			done.Error = err.Error()
		}
		reloads = append(reloads, done)
	}
	return reloads, err
}

// plugin finds a plugin by name.
func (r *Runtime) plugin(name nacre.PluginName) (pluginhost.Found, error) {
	found, err := r.plugins()
	for _, f := range found {
		if f.Name == name {
			return f, nil
		}
	}
	if err == nil {
		err = badConfig("there is no plugin %s: nacre plugin list", name)
	}
	return pluginhost.Found{}, err
}

// reloadPlugin replaces a plugin of this session by what its folder is now. Its kernel
// decides anew on other code: nothing that was agreed to for the old counts for it. A
// plugin that sees the project, or would now, has to wait for another session.
func (s *sealed) reloadPlugin(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-s.calls.ready:
	case <-ctx.Done():
		return errors.New("its plugins have not started yet")
	}
	if err := s.openCalls(); err != nil {
		return err
	}
	if s.shared != nil && s.shared.names[name] {
		return errors.New("nacre serve runs it for all sessions, and reloads it there")
	}
	s.reloading.Lock() // what was is what the kernel knows
	defer s.reloading.Unlock()
	now, err := s.runtime.plugin(name)
	if err != nil {
		return err
	}
	was := s.stage.plugin(name)
	changed := was.Hash != "" && was.Hash != now.Hash // without one it does not run here
	if changed && (s.runtime.reachOf(was).project != "" || s.runtime.reachOf(now).project != "") {
		return errors.New("its files have changed, and it sees the project: this session goes on with those it began with, and the next one has the new ones")
	}
	for _, l := range s.late {
		if l.found.Name == name {
			return l.restart(ctx)
		}
	}
	tools, err := s.stage.reload(ctx, s.host, name)
	if err != nil {
		return err
	}
	return s.exchange(was, tools.New)
}

// exchange lets the kernel know a plugin's tools in the place of those that it had.
func (s *sealed) exchange(was pluginhost.Found, tools []nacre.Tool) error {
	var old []nacre.CapabilityID
	for _, t := range was.Manifest.Provides.Tools {
		old = append(old, t.Capability(was.Name, was.Hash).ID)
	}
	fresh := s.stage.discreet(tools)
	for i, t := range fresh {
		fresh[i].Capability = s.runtime.config.Tools[string(t.Capability.Tool)].apply(t.Capability)
	}
	return s.kernel.Replace(old, fresh)
}

// admit refuses a folder that is not what was found there, and agreed to, a moment ago.
func (g *stage) admit(f pluginhost.Found) error {
	if f.Hash != g.plugin(f.Name).Hash {
		return errors.New("its folder changed while it was read: reload it again")
	}
	return nil
}

// reload replaces a plugin of a host. What it may reach is what was confirmed of
// the new one.
func (g *stage) reload(ctx context.Context, host *pluginhost.Host, name nacre.PluginName) (pluginhost.Reloaded, error) {
	now, err := g.runtime.plugin(name)
	if err != nil {
		return pluginhost.Reloaded{}, err
	}
	if now.Err != nil {
		return pluginhost.Reloaded{}, fmt.Errorf("plugin %s goes on as it was: %w", name, now.Err)
	}
	was := g.plugin(name)
	g.replace(now)
	tools, err := host.Reload(ctx, name)
	if err != nil {
		g.replace(was)
	}
	return tools, err
}

func (g *stage) replace(f pluginhost.Found) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found[f.Name] = f
}

// restart ends the handler; the next call starts it again.
func (l *late) restart(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == nil {
		return nil
	}
	host := l.host
	l.host = nil
	return host.Close(ctx)
}
