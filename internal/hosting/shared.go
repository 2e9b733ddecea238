package hosting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/session"
)

// Shared are the plugins that `nacre serve` runs for all of its sessions:
// those that have channels or subscribe to events. A nil one has none.
type Shared struct {
	// Host runs them.
	Host  *pluginhost.Host
	Stage *Stage
	names map[nacre.PluginName]bool

	mu     sync.Mutex
	guests map[nacre.SessionID]*Guest
	// woken are the messages that woke sessions: whose they are, in the channel's terms.
	woken map[nacre.SessionID]map[string]string
}

// Channels are what plugins with channels speak to. The zero value serves none.
type Channels struct {
	// Publish takes what plugins say, from any goroutine; with nil nobody does, and no channel is served.
	Publish Publisher
	// Faces takes what persons press at channels; with nil nobody does.
	Faces Faces
	// Serves says whether this process serves the channels of a plugin that may be served once;
	// nil serves them.
	Serves func(nacre.PluginName) bool
}

// Once are the plugins whose channels may be served once.
func (p *Shared) Once() (names []nacre.PluginName) {
	for name := range p.names {
		if p.Stage.Plugin(name).Manifest.Once {
			names = append(names, name)
		}
	}
	return names
}

// Wake says which message woke a session, until the returned function is called.
func (p *Shared) Wake(id nacre.SessionID, message map[string]string) (rested func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken[id] = message
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.woken, id)
	}
}

// wokenBy is the message that woke a session; nil for none.
func (p *Shared) wokenBy(id nacre.SessionID) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.woken[id]
}

// Holder opens a session in which no agent runs: what a long-lived process, or
// one that only tries something, keeps plugins and their records in. It is in no
// group, so that its records are no group's.
// reload, where set, answers `nacre plugin reload`.
func Holder(ctx context.Context, inst *installation.Installation, kind, title string, reload func(context.Context, nacre.PluginName) error) (*session.Session, error) {
	s, err := session.Open(ctx, session.Options{
		Registry: inst.Registry, Sandbox: inst.Backend, EndOrphans: installation.EndOrphans, Keys: inst.Keys, Now: inst.Options.Now, AskTTL: inst.Config.AskTTL(), Reload: reload, Elsewhere: inst.Elsewhere,
		Session: registry.Session{SessionStatus: nacre.SessionStatus{
			ID: registry.NewID(), Kind: kind, Title: title, State: nacre.SessionOpen, Started: inst.Options.Now(),
		}},
	})
	return s, inst.Writable(err)
}

// Try starts plugins as a session does, in one that has no agent and no group, and
// ends them when do returns.
func Try(ctx context.Context, inst *installation.Installation, title string, found []pluginhost.Found, do func(*pluginhost.Host)) (err error) {
	held, err := Holder(ctx, inst, "verify", title, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close(ctx, "verified", true)) }()
	g := newStage(inst, held, held.Recorder, found)
	options, err := g.Options(nil)
	if err != nil {
		return err
	}
	host, err := pluginhost.Start(ctx, found, options)
	if err != nil {
		return err
	}
	defer g.Close()
	defer func() { err = errors.Join(err, host.Close(ctx)) }()
	do(host)
	return nil
}

// StartShared starts the plugins that have channels or subscribe to events, in
// the sandbox of a session that its caller holds, such as a holder's. What
// happens to them is recorded by recorder; nil means the session's own. It returns when each has started or failed; one that fails is left
// out. The session must outlive the host.
func StartShared(ctx context.Context, inst *installation.Installation, held *session.Session, recorder nacre.Recorder, to Channels) (*Shared, error) {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(f pluginhost.Found) bool {
		return len(f.Manifest.Provides.Channels)+len(f.Manifest.Subscribes) == 0
	})
	if recorder == nil {
		recorder = held.Recorder
	}
	p := &Shared{Stage: newStage(inst, held, recorder, found), names: map[nacre.PluginName]bool{}, guests: map[nacre.SessionID]*Guest{}, woken: map[nacre.SessionID]map[string]string{}}
	for _, f := range found {
		p.names[f.Name] = true
	}
	p.Stage.guest, p.Stage.woken = p.guest, p.wokenBy
	p.Stage.faces = to.Faces
	if to.Publish != nil {
		p.Stage.publish = to.Publish
	}
	options, err := p.Stage.Options(nil)
	if err != nil {
		return nil, err
	}
	options.Channels, options.Serves = to.Publish != nil, to.Serves
	if p.Host, err = pluginhost.Start(ctx, found, options); err == nil {
		return p, nil
	}
	p.Stage.Close()
	if ctx.Err() == nil {
		err = &config.Error{Err: err}
	}
	return nil, err
}

// Close ends the plugins. No session that was given them is open any more, and
// the session that they were started on still is.
func (p *Shared) Close(ctx context.Context) error {
	err := p.Host.Close(ctx)
	p.Stage.Close()
	return err
}

// Reload replaces one of the plugins by what its folder is now (D-27). Sessions that are opened from then on have its new tools. Calls of
// earlier ones to code that is gone are refused, since nobody decided on the new one for them.
func (p *Shared) Reload(ctx context.Context, name nacre.PluginName) error {
	if !p.names[name] {
		return fmt.Errorf("plugin %s has no channel and subscribes to nothing: each session runs its own", name)
	}
	_, err := p.Stage.reload(ctx, p.Host, name)
	return err
}

// part takes the shared plugins out of those that a session found, and gives
// the tools of those that run.
func (p *Shared) part(found []pluginhost.Found) (rest []pluginhost.Found, tools []nacre.Tool) {
	if p == nil {
		return found, nil
	}
	for _, f := range found {
		if !p.names[f.Name] {
			rest = append(rest, f)
		}
	}
	return rest, p.Stage.handed.discreet(p.Host.Tools())
}

// attach lets requests of a session be answered: from now on it is known to whom
// they belong.
func (p *Shared) attach(s *Guest) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guests[s.ID] != nil {
		return fmt.Errorf("session %s is open already", s.ID)
	}
	p.guests[s.ID] = s
	return nil
}

func (p *Shared) detach(s *Guest) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guests[s.ID] == s {
		delete(p.guests, s.ID)
	}
}

func (p *Shared) guest(id nacre.SessionID) *Guest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guests[id]
}

// runs tells whether a plugin runs for every session.
func (p *Shared) runs(name nacre.PluginName) bool { return p != nil && p.names[name] }

// skills are those of the plugins of which a group may use a tool.
func (p *Shared) skills(group nacre.Group) (skills []pluginhost.Skill) {
	if p == nil {
		return nil
	}
	for _, skill := range p.Host.Skills() {
		if p.serves(group, nacre.PluginName(skill.Name)) {
			skills = append(skills, skill)
		}
	}
	return skills
}

// serves reports whether a group may use a tool of a plugin.
func (p *Shared) serves(group nacre.Group, name nacre.PluginName) bool {
	f := p.Stage.Plugin(name)
	groups := access.ToolGroups(p.Stage.Inst, p.Stage.Inst.Options.Now())
	for _, t := range f.Manifest.Provides.Tools {
		if groups.Allows(group, t.Capability(f.Name, f.Hash)) {
			return true
		}
	}
	return false
}
