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

// reloadPlugin starts a plugin of this session again. Its kernel decided on the
// code that it registered, so other code has to wait for another session.
func (s *sealed) reloadPlugin(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return errors.New("its plugins have not started yet")
	}
	if s.shared != nil && s.shared.names[name] {
		return errors.New("nacre serve runs it for all sessions, and reloads it there")
	}
	now, err := s.runtime.plugin(name)
	if err != nil {
		return err
	}
	if was := s.stage.plugin(name); was.Hash != "" && was.Hash != now.Hash { // without one it does not run here
		return errors.New("its files have changed, and this session goes on with those it began with: the next session has the new ones")
	}
	for _, l := range s.late {
		if l.found.Name == name {
			return l.restart(ctx)
		}
	}
	return s.stage.reload(ctx, s.host, name)
}

// reload replaces a plugin of a host. What it may reach is what was confirmed of
// the new one.
func (g *stage) reload(ctx context.Context, host *pluginhost.Host, name nacre.PluginName) error {
	now, err := g.runtime.plugin(name)
	if err != nil {
		return err
	}
	if now.Err != nil {
		return fmt.Errorf("plugin %s goes on as it was: %w", name, now.Err)
	}
	was := g.plugin(name)
	g.replace(now)
	if _, err := host.Reload(ctx, name); err != nil {
		g.replace(was)
		return err
	}
	return nil
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
