package hosting

import (
	"context"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/session"
)

// Reloaded is what became of a plugin in one session.
type Reloaded struct {
	Session nacre.SessionID `json:"session"`
	// Error is why it goes on as it was; empty where it was replaced.
	Error string `json:"error,omitempty"`
}

// ReloadEverywhere replaces a plugin by what its folder is now, in each live session
// that runs it and in `nacre serve` (D-27). What was not replaced goes on as it was.
func ReloadEverywhere(ctx context.Context, inst *installation.Installation, name nacre.PluginName) ([]Reloaded, error) {
	if _, err := access.Named(inst, name); err != nil {
		return nil, err
	}
	list, err := inst.Registry.List()
	reloads := []Reloaded{}
	for _, known := range list {
		remote, err := session.Dial(known)
		if err != nil {
			continue // it is not live
		}
		done := Reloaded{Session: known.ID}
		if err := remote.Reload(ctx, name); err != nil {
			done.Error = err.Error()
		}
		reloads = append(reloads, done)
	}
	return reloads, err
}

// Replace puts tools in the place of others, for whoever decides on calls of them.
type Replace func(old []nacre.CapabilityID, fresh []nacre.Tool) error

// Reload replaces one of the session's own plugins by what its folder is now. The
// kernel decides anew on other code: nothing that was agreed to for the old counts for
// it. A plugin that sees the project, or would now, has to wait for another session.
func (p *Plugins) Reload(ctx context.Context, name nacre.PluginName, replace Replace) error {
	if p.shared.runs(name) {
		return errors.New("nacre serve runs it for all sessions, and reloads it there")
	}
	p.reloading.Lock() // what was is what the kernel knows
	defer p.reloading.Unlock()
	now, err := access.Named(p.inst, name)
	if err != nil {
		return err
	}
	was := p.stage.Plugin(name)
	changed := was.Hash != "" && was.Hash != now.Hash // without one it does not run here
	if changed && (access.ReachOf(p.inst, was).Project != "" || access.ReachOf(p.inst, now).Project != "") {
		return errors.New("its files have changed, and it sees the project: this session goes on with those it began with, and the next one has the new ones")
	}
	for _, l := range p.late {
		if l.found.Name == name {
			return l.restart(ctx)
		}
	}
	tools, err := p.stage.reload(ctx, p.host, name)
	if err != nil {
		return err
	}
	return p.exchange(replace, was, tools.New)
}

// exchange lets the kernel know a plugin's tools in the place of those that it had.
func (p *Plugins) exchange(replace Replace, was pluginhost.Found, tools []nacre.Tool) error {
	var old []nacre.CapabilityID
	for _, t := range was.Manifest.Provides.Tools {
		old = append(old, t.Capability(was.Name, was.Hash).ID)
	}
	fresh := p.stage.handed.discreet(tools)
	for i, t := range fresh {
		fresh[i].Capability = p.inst.Config.Pinned(t.Capability)
	}
	return replace(old, fresh)
}

// admit refuses a folder that is not what was found there, and agreed to, a moment ago.
func (g *Stage) admit(f pluginhost.Found) error {
	if f.Hash != g.Plugin(f.Name).Hash {
		return errors.New("its folder changed while it was read: reload it again")
	}
	return nil
}

// reload replaces a plugin of a host. What it may reach is what was confirmed of
// the new one.
func (g *Stage) reload(ctx context.Context, host *pluginhost.Host, name nacre.PluginName) (pluginhost.Reloaded, error) {
	now, err := access.Named(g.Inst, name)
	if err != nil {
		return pluginhost.Reloaded{}, err
	}
	if now.Err != nil {
		return pluginhost.Reloaded{}, fmt.Errorf("plugin %s goes on as it was: %w", name, now.Err)
	}
	was := g.Plugin(name)
	g.replace(now)
	tools, err := host.Reload(ctx, name)
	if err != nil {
		g.replace(was)
	}
	return tools, err
}

func (g *Stage) replace(f pluginhost.Found) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found[f.Name] = f
}

// restart ends the handler; the next call starts it again.
func (l *lazyPlugin) restart(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == nil {
		return nil
	}
	host := l.host
	l.host = nil
	return host.Close(ctx)
}
