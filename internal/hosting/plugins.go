package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/plugin"
)

// Plugins are those whose tools one session has: its own, which it starts and ends,
// and the shared ones, which go on after it. A nil one has none.
type Plugins struct {
	inst   *installation.Installation
	guest  *Guest
	found  []pluginhost.Found
	folder WorkFolder
	masks  Masks
	warn   func(nacre.Step)
	stage  *Stage           // where its own run
	host   *pluginhost.Host // nil before they are started
	late   []*lazyPlugin
	shared *Shared
	idle   bool // none of its own is started, now or later
	// reloading is held while a plugin takes the place of what it was.
	reloading sync.Mutex
}

// Options are what the plugins of a session are opened with.
type Options struct {
	// Guest is the session, as its plugins may know it.
	Guest Guest
	// Found are the plugins that there are.
	Found []pluginhost.Found
	// Shared, where it is set, runs plugins for several sessions.
	Shared *Shared
	// Folder is what a plugin that may see the project sees.
	Folder WorkFolder
	Masks  Masks
	// Warn is told what the operator has to know.
	Warn func(nacre.Step)
}

// Finder finds the plugins of a group. What could not be read is among them.
func Finder(inst *installation.Installation, group nacre.Group) func() ([]pluginhost.Found, error) {
	return func() ([]pluginhost.Found, error) { return access.PluginsOf(inst, group) }
}

// Open makes the place where a session's plugins run, and tells of those that are left
// out. It starts none of them.
func Open(inst *installation.Installation, s *session.Session, o Options) *Plugins {
	p := &Plugins{inst: inst, guest: &o.Guest, found: o.Found, folder: o.Folder, masks: o.Masks, warn: o.Warn, shared: o.Shared, stage: newStage(inst, s, s.Recorder, o.Found)}
	p.stage.guest = func(id nacre.SessionID) *Guest {
		if id != p.guest.ID {
			return nil
		}
		return p.guest
	}
	p.warnOfAccess()
	p.warnOfLeftOut()
	return p
}

// Start starts the plugins that the session's group may use, each sealed, and gives their tools. It
// gives those of the others, too, which exist and are not started: a call of them is refused for
// that. own are the tools that exist beside them.
func (p *Plugins) Start(ctx context.Context, own []nacre.Tool) ([]nacre.Tool, error) {
	plugins, shared := p.shared.part(p.found)
	used, unused := p.split(plugins)
	used, late := p.partLate(used)
	others := slices.Concat(shared, late, unused)
	if err := p.start(ctx, used, slices.Concat(own, others)); err != nil {
		return nil, err
	}
	p.idle = len(used)+len(p.late) == 0
	return slices.Concat(others, p.stage.handed.discreet(p.host.Tools())), nil
}

// Attach lets requests of shared plugins about the session be answered.
func (p *Plugins) Attach() error { return p.shared.attach(p.guest) }

// Idle tells whether the session started no plugin of its own, and will start none.
func (p *Plugins) Idle() bool { return p != nil && p.idle }

// ShowsProject tells whether a plugin of the session sees the project.
func (p *Plugins) ShowsProject() bool { return p != nil && len(p.late) > 0 }

// split keeps the plugins that the session starts, and gives the tools of the
// others. Channels and events are for those that are shared: a session alone has
// neither.
func (p *Plugins) split(found []pluginhost.Found) (used []pluginhost.Found, unused []nacre.Tool) {
	for _, f := range found {
		if access.Starts(p.inst, p.guest.Group, f) {
			used = append(used, f)
			continue
		}
		for _, t := range f.Manifest.Provides.Tools {
			unused = append(unused, nacre.Tool{Capability: t.Capability(f.Name, f.Hash), Driver: nacre.DriverFunc(notStarted)})
		}
	}
	return used, unused
}

// notStarted stands for a plugin that the group may not use: no call gets here.
func notStarted(context.Context, nacre.Invocation) (json.RawMessage, error) {
	return nil, errors.New("plugin is not started for this group")
}

// partLate takes the plugins out that see the project, and gives their tools.
// What the kernel would refuse is left to the start that reports it.
func (p *Plugins) partLate(used []pluginhost.Found) (now []pluginhost.Found, tools []nacre.Tool) {
	for _, f := range used {
		to := access.ReachOf(p.inst, f)
		refused := slices.ContainsFunc(f.Manifest.Provides.Tools, func(t plugin.ToolSpec) bool {
			return access.Check(p.inst, t.Capability(f.Name, f.Hash)) != nil
		})
		if to.Project == plugin.ProjectNone || f.Err != nil || refused {
			now = append(now, f)
			continue
		}
		l := &lazyPlugin{stage: p.stage, folder: p.folder, masks: p.masks, found: f, project: to.Project}
		p.late = append(p.late, l)
		for _, t := range f.Manifest.Provides.Tools {
			tools = append(tools, nacre.Tool{Capability: t.Capability(f.Name, f.Hash), Driver: l})
		}
	}
	return now, p.stage.handed.discreet(tools)
}

// start starts plugins, each sealed. others are tools that exist beside theirs.
func (p *Plugins) start(ctx context.Context, used []pluginhost.Found, others []nacre.Tool) error {
	taken := map[nacre.ToolName]string{}
	for _, tool := range others {
		taken[tool.Capability.Tool] = string(tool.Capability.ID)
	}
	options, err := p.stage.Options(taken)
	if err != nil {
		return err
	}
	p.host, err = pluginhost.Start(ctx, used, options)
	if err != nil && ctx.Err() == nil {
		return &config.Error{Err: err}
	}
	return err
}

// Close ends the session's own plugins. Shared ones go on. One that had to
// be ended by force is told of, and is no failure of what the session did (D-24).
func (p *Plugins) Close(ctx context.Context) {
	if p == nil {
		return
	}
	var errs []error
	for _, l := range p.late {
		errs = append(errs, l.close(ctx))
	}
	if p.host != nil {
		errs = append(errs, p.host.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		p.warn(nacre.Step{Kind: nacre.StepResult, Name: "plugin", IsError: true, Text: p.stage.Clean(err.Error())})
	}
	p.stage.Close()
	p.shared.detach(p.guest)
}

// Skills are those of the plugins whose tools the session has.
func (p *Plugins) Skills() []pluginhost.Skill {
	if p == nil {
		return nil // they rest until a first call
	}
	skills := p.host.Skills()
	for _, l := range p.late {
		skills = append(skills, l.found.Skill)
	}
	return append(skills, p.shared.skills(p.guest.Group)...)
}

// Health is that of every plugin whose tools the session has.
func (p *Plugins) Health() pluginhost.Health {
	all := p.host.Health()
	hosts := []pluginhost.Health{}
	for _, l := range p.late {
		hosts = append(hosts, l.health())
	}
	if p.shared != nil {
		hosts = append(hosts, p.shared.Host.Health())
	}
	for _, h := range hosts {
		all.Healthy, all.Failed, all.Degraded = append(all.Healthy, h.Healthy...), append(all.Failed, h.Failed...), append(all.Degraded, h.Degraded...)
		all.Restarting = append(all.Restarting, h.Restarting...)
	}
	return all
}

// warnOfAccess tells of access that no plugin has.
func (p *Plugins) warnOfAccess() {
	for _, name := range slices.Sorted(maps.Keys(p.inst.Config.Access)) {
		if !slices.ContainsFunc(p.found, func(f pluginhost.Found) bool { return string(f.Name) == name }) {
			p.warn(nacre.Step{Kind: nacre.StepResult, Name: "access", IsError: true,
				Text: fmt.Sprintf("[access.%s] in config.toml: there is no plugin of this name, so nothing is granted", name)})
		}
	}
}

// warnOfLeftOut tells of plugins that are left out because of others, or for what is wrong
// with their own folder.
func (p *Plugins) warnOfLeftOut() {
	for _, f := range p.found {
		if f.Err != nil {
			p.warn(nacre.Step{Kind: nacre.StepResult, Name: "plugin", IsError: true, Text: fmt.Sprintf("%s is left out: %s", f.Name, f.Err)})
		}
	}
}
