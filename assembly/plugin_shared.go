package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/session"
)

// sharedPlugins are the plugins that `nacre serve` runs for all of its sessions:
// those that have channels or subscribe to events. A nil one has none.
type sharedPlugins struct {
	// Host runs them.
	Host  *pluginhost.Host
	stage *stage
	names map[nacre.PluginName]bool

	mu       sync.Mutex
	sessions map[nacre.SessionID]*sealed
}

// holder opens a session in which no agent runs: what a long-lived process, or
// one that only tries something, keeps plugins and their records in. It is in no
// group, so that its records are no group's.
// reload, where set, answers `nacre plugin reload`.
func (r *Runtime) holder(ctx context.Context, kind, title string, reload func(context.Context, nacre.PluginName) error) (*session.Session, error) {
	s, err := session.Open(ctx, session.Options{
		Registry: r.registry, Sandbox: r.backend, EndOrphans: endOrphans, Keys: r.keys, Now: r.options.Now, AskTTL: r.config.askTTL(), Reload: reload,
		Session: registry.Session{SessionStatus: nacre.SessionStatus{
			ID: registry.NewID(), Kind: kind, Title: title, State: nacre.SessionOpen, Started: r.options.Now(),
		}},
	})
	return s, r.writable(err)
}

// startShared starts the plugins that have channels or subscribe to events, in
// the sandbox of a session that its caller holds, such as a holder's. What
// happens to them is recorded by recorder; nil means the session's own. publish
// takes what they say, from any goroutine; with nil nobody does, and no channel
// is served. It returns when each has started or failed; one that fails is left
// out. The session must outlive the host.
func (r *Runtime) startShared(ctx context.Context, held *session.Session, recorder nacre.Recorder, publish publisher) (*sharedPlugins, error) {
	found, err := r.plugins()
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(f pluginhost.Found) bool {
		return len(f.Manifest.Provides.Channels)+len(f.Manifest.Subscribes) == 0
	})
	p := &sharedPlugins{stage: r.newStage(held, found), names: map[nacre.PluginName]bool{}, sessions: map[nacre.SessionID]*sealed{}}
	for _, f := range found {
		p.names[f.Name] = true
	}
	p.stage.of, p.stage.publish = p.session, publish
	if recorder != nil {
		p.stage.recorder = recorder
	}
	options, err := p.stage.options(nil)
	if err != nil {
		return nil, err
	}
	options.Channels = publish != nil
	if p.Host, err = pluginhost.Start(ctx, found, options); err == nil {
		return p, nil
	}
	p.stage.close()
	if ctx.Err() == nil {
		err = &ConfigError{err}
	}
	return nil, err
}

// Close ends the plugins. No session that was given them is open any more, and
// the session that they were started on still is.
func (p *sharedPlugins) Close(ctx context.Context) error {
	err := p.Host.Close(ctx)
	p.stage.close()
	return err
}

// Reload replaces one of the plugins by what its folder is now (D-27). Sessions
// that are opened from then on have its new tools; calls of earlier ones to code
// that is gone are refused, since nobody decided on the new one for them.
func (p *sharedPlugins) Reload(ctx context.Context, name nacre.PluginName) error {
	if !p.names[name] {
		return fmt.Errorf("plugin %s has no channel and subscribes to nothing: each session runs its own", name)
	}
	_, err := p.stage.reload(ctx, p.Host, name)
	return err
}

// part takes the shared plugins out of those that a session found, and gives
// the tools of those that run.
func (p *sharedPlugins) part(found []pluginhost.Found) (rest []pluginhost.Found, tools []nacre.Tool) {
	if p == nil {
		return found, nil
	}
	for _, f := range found {
		if !p.names[f.Name] {
			rest = append(rest, f)
		}
	}
	return rest, p.stage.discreet(p.Host.Tools())
}

// attach lets requests of a session be answered: from now on it is known to whom
// they belong.
func (p *sharedPlugins) attach(s *sealed) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.ID()] != nil {
		return fmt.Errorf("session %s is open already", s.ID())
	}
	p.sessions[s.ID()] = s
	return nil
}

func (p *sharedPlugins) detach(s *sealed) {
	if p == nil || s.Session == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.ID()] == s {
		delete(p.sessions, s.ID())
	}
}

func (p *sharedPlugins) session(id nacre.SessionID) *sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[id]
}

// openStage is where the session's own plugins run.
func (s *sealed) openStage() {
	s.stage = s.runtime.newStage(s.Session, s.found.plugins)
	s.stage.of = func(id nacre.SessionID) *sealed {
		if id != s.ID() {
			return nil
		}
		return s
	}
}

// closePlugins ends the session's own plugins. Shared ones go on. One that had to
// be ended by force is told of, and is no failure of what the session did (D-24).
func (s *sealed) closePlugins(ctx context.Context) {
	var errs []error
	for _, l := range s.late {
		errs = append(errs, l.close(ctx))
	}
	if s.host != nil {
		errs = append(errs, s.host.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		s.warn(nacre.Step{Kind: nacre.StepResult, Name: "plugin", IsError: true, Text: s.stage.clean(err.Error())})
	}
	if s.stage != nil {
		s.stage.close()
	}
	s.shared.detach(s)
}

// pluginSkills are those of the plugins whose tools the session has.
func (s *sealed) pluginSkills() []pluginhost.Skill {
	skills := s.host.Skills()
	for _, l := range s.late {
		skills = append(skills, l.found.Skill)
	}
	if s.shared == nil {
		return skills
	}
	for _, skill := range s.shared.Host.Skills() {
		if s.usesShared(nacre.PluginName(skill.Name)) {
			skills = append(skills, skill)
		}
	}
	return skills
}

// usesShared reports whether the session's group may use a tool of a shared plugin.
func (s *sealed) usesShared(name nacre.PluginName) bool {
	f := s.shared.stage.plugin(name)
	groups := s.runtime.config.groups()
	for _, t := range f.Manifest.Provides.Tools {
		if groups.Allows(s.Group(), t.Capability(f.Name, f.Hash)) {
			return true
		}
	}
	return false
}

// pluginHealth is that of every plugin whose tools the session has.
func (s *sealed) pluginHealth() pluginhost.Health {
	all := s.host.Health()
	hosts := []pluginhost.Health{}
	for _, l := range s.late {
		hosts = append(hosts, l.health())
	}
	if s.shared != nil {
		hosts = append(hosts, s.shared.Host.Health())
	}
	for _, h := range hosts {
		all.Healthy, all.Failed, all.Degraded = append(all.Healthy, h.Healthy...), append(all.Failed, h.Failed...), append(all.Degraded, h.Degraded...)
	}
	return all
}
